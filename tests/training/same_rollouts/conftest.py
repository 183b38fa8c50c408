"""A real vLLM whose model calls the harness's tools, an image for its sandboxes, and runs over both."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.real_vllm import real_vllm, tiny_model
from tests.training.nemo_rl.world import FILES
from tests.training.same_rollouts.endpoint import SameEngine, SampledAnswers
from tests.training.same_rollouts.task import COMMANDS, HARNESS, SameTask, rows, write_config, write_given

from paddock.cli import main
from paddock.sandbox import SandboxError
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.testing.sandboxes import repository_image, sandbox_home, store_of
from paddock.types import JsonObject

ROOT = Path(__file__).parents[3]
LAUNCH = Path(__file__).with_name("launch.py")


class SameRun:
    """One trainer's run of the task."""

    def __init__(self, folder: Path, model: Path, config: Path, answers: SampledAnswers, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.engine = SameEngine(answers)
        self.task = SameTask(str(config), str(model), self.engine.url, str(folder / "runs"))
        self.task.write(folder)

    def python(self, interpreter: str, module: str, *words: str | Path, path: Sequence[str | Path] = ()) -> str:
        """Run a module of the tests under an interpreter: what it printed."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT, *path))),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "TRL_EXPERIMENTAL_SILENCE": "1",
            "VERL_USE_EXTERNAL_MODULES": "paddock.training.verl.advantages",
        }
        done = subprocess.run(
            [interpreter, LAUNCH, module, *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return done.stdout

    def read(self, name: str) -> JsonObject:
        found: JsonObject = json.loads((self.folder / name).read_text())
        return found

    @property
    def given(self) -> JsonObject:
        """What a script of a trainer wrote."""
        return self.read("given.json")

    def write(self, samples: Sequence[JsonObject]) -> None:
        """Write samples where a script reads them."""
        write_given(self.folder, samples)

    def write_rows(self) -> Path:
        """The row file of the task."""
        path = self.folder / "rows.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows()))
        return path

    def stored(self) -> list[JsonObject]:
        """The lines of `paddock samples` over the run's rollouts."""
        (run,) = Path(self.task.out).iterdir()
        lines = run / "samples.jsonl"
        assert main(["samples", str(run), "--out", str(lines)]) in (0, None)
        return [json.loads(line) for line in lines.read_text().splitlines()]


class SameRuns:
    """Makes runs whose engines give the same answers."""

    def __init__(self, model: Path, answers: SampledAnswers, home: Path, folders: pytest.TempPathFactory) -> None:
        self.answers = answers
        self._model = model
        self._home = home
        self._folders = folders

    def open(self, name: str) -> SameRun:
        folder = self._folders.mktemp(name)
        config = write_config(folder / "environment.yaml", self._home)
        return SameRun(folder, self._model, config, self.answers, self._home)


@pytest.fixture(scope="session")
def same_runs(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SameRuns]:
    place = Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")
    model = tiny_model(place, vllm_python, ROOT, harness=HARNESS, commands=COMMANDS)
    folder = tmp_path_factory.mktemp("vllm")
    with sandbox_home() as home, real_vllm(folder, python=vllm_python, model=model, harness=HARNESS) as vllm:
        try:
            repository_image(store_of(home), "calc", FILES)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield SameRuns(model, SampledAnswers(vllm.engine_url, str(model)), home, tmp_path_factory)
