"""Claims about other projects' trainers that are killed amid rollouts in sandboxes: nothing of ours is left behind.

Each is started as its users start it, or as the nearest to it that needs no GPU; its engine answers no call.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any, NamedTuple

import orjson
import psutil
import pytest
import yaml
from tests.support.processes import MARK, gone, marked_family
from tests.training.skyrl.http_engine import HANGS, HttpEngine

from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.training.skyrl.rows import dataset_line
from paddock.types import JsonObject

ROOT = Path(__file__).parents[2]
MEMBERS = 3
START_TIMEOUT_S, END_TIMEOUT_S = 300.0, 30.0
AGENTS_OF_RAY, AGENTS_TIMEOUT_S = ("ray::DashboardAgent", "ray::RuntimeEnvAgent"), 120.0
"""Ray's own, which look from time to time whether their node is still there."""
pytestmark = [pytest.mark.sandbox, pytest.mark.trainer, pytest.mark.timeout(600)]


class KilledTrainer(NamedTuple):
    """A folder for a trainer, with `environment.yaml`, `rows.jsonl` and `model`, and an engine beside it."""

    folder: Path
    row: JsonObject
    engine: HttpEngine

    def python(self, variable: str) -> str:
        """An interpreter with the trainer."""
        python = os.environ.get(variable)
        if not python:
            pytest.skip(f"{variable} names no interpreter")
        return python


@pytest.fixture
def stand(swe_case: Any, tmp_path: Path) -> KilledTrainer:
    tree = {**swe_case.tree}
    (agent,) = tree["codeact"]["agents"].values()
    agent = {**agent, "model_server": {"type": "models_servers", "name": "policy_model"}}
    tree["codeact"] = {"agents": {"swe": agent}}
    (tmp_path / "environment.yaml").write_text(yaml.safe_dump(tree))
    row = {"responses_create_params": {"input": []}, **swe_case.row}
    (tmp_path / "rows.jsonl").write_bytes(orjson.dumps(row) + b"\n")
    model = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    config = model / "tokenizer_config.json"
    known = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    config.write_bytes(orjson.dumps({**orjson.loads(config.read_bytes()), **known}))
    return KilledTrainer(tmp_path, row, HttpEngine(lambda _number: HANGS))


def verl(stand: KilledTrainer) -> list[str]:
    """A V1 worker as an actor in a Ray of the trainer's own."""
    script = ROOT / "tests/training/verl/drive_killed.py"
    return [stand.python("PADDOCK_VERL_PYTHON"), str(script), str(stand.folder), str(MEMBERS)]


def skyrl(stand: KilledTrainer) -> list[str]:
    """Its command, in a Ray of its own."""
    python = stand.python("PADDOCK_SKYRL_PYTHON")
    data = stand.folder / "data.jsonl"
    data.write_bytes(orjson.dumps(dataset_line(stand.row)) + b"\n")
    keys = {
        "data.dataloader.num_workers": "0",
        "data.dataloader.persistent_workers": "false",
        "data.train_data": f"['{data}']",
        "trainer.policy.model.path": str(stand.folder / "model"),
        "trainer.placement.colocate_all": "false",
        "trainer.train_batch_size": "1",
        "trainer.policy_mini_batch_size": "1",
        "trainer.micro_forward_batch_size_per_gpu": "1",
        "trainer.micro_train_batch_size_per_gpu": "1",
        "trainer.eval_interval": "-1",
        "trainer.ckpt_interval": "-1",
        "trainer.hf_save_interval": "-1",
        "trainer.resume_mode": "none",
        "trainer.logger": "console",
        "trainer.export_path": str(stand.folder / "export"),
        "trainer.ckpt_path": str(stand.folder / "checkpoints"),
        "trainer.algorithm.policy_loss_type": "rollout_is",
        "trainer.fully_async.enabled": "true",
        "trainer.fully_async.simulate_training": "true",
        "trainer.fully_async.num_parallel_generation_workers": "1",
        "trainer.enable_ray_gpu_monitor": "false",
        "generator.n_samples_per_prompt": str(MEMBERS),
        "generator.step_wise_trajectories": "true",
        "generator.inference_engine.run_engines_locally": "false",
        "generator.inference_engine.external_proxy_url": stand.engine.url,
        "generator.inference_engine.num_engines": "1",
        "generator.inference_engine.enable_ray_prometheus_stats": "false",
    }
    words = [f"{name}={value}" for name, value in keys.items()]
    return [python, "-m", "paddock.training.skyrl", str(stand.folder / "environment.yaml"), "--", *words]


def taskset_keys(stand: KilledTrainer) -> JsonObject:
    return {
        "id": "paddock-environment",
        "config": [str(stand.folder / "environment.yaml")],
        "rows": [str(stand.folder / "rows.jsonl")],
    }


def verifiers_command(stand: KilledTrainer) -> list[str]:
    """Its evaluation command."""
    python = Path(stand.python("PADDOCK_VERIFIERS_PYTHON"))
    run = {
        "model": str(stand.folder / "model"),
        "num_rollouts": MEMBERS,
        "push": False,
        "output_dir": str(stand.folder / "outputs"),
        "client": {"type": "train", "base_url": f"{stand.engine.url}/v1"},
        "env": {"taskset": taskset_keys(stand)},
    }
    (stand.folder / "run.json").write_bytes(orjson.dumps(run))
    return [str(python.with_name("vf-eval")), "@", str(stand.folder / "run.json"), "--no-rich"]


def verifiers_servers(stand: KilledTrainer) -> list[str]:
    """A trainer before the pool of environment servers that it started."""
    python = stand.python("PADDOCK_VERIFIERS_PYTHON")
    (stand.folder / "taskset.json").write_bytes(orjson.dumps(taskset_keys(stand)))
    script = ROOT / "tests/training/verifiers/drive_killed.py"
    return [python, str(script), str(stand.folder), f"{stand.engine.url}/v1", str(MEMBERS)]


def slime(stand: KilledTrainer) -> list[str]:
    """Its rollout phase."""
    if not os.environ.get("PADDOCK_SLIME"):
        pytest.skip("PADDOCK_SLIME names no checkout")
    python = stand.python("PADDOCK_VLLM_PYTHON")
    settings = {"paddock_config": str(stand.folder / "environment.yaml")}
    (stand.folder / "custom.json").write_bytes(orjson.dumps(settings))
    line = {"prompt": "rows:1", "metadata": {"row": stand.row}}
    (stand.folder / "data.jsonl").write_bytes(orjson.dumps(line) + b"\n")
    return [python, str(ROOT / "tests/training/slime/driver.py"), str(stand.folder), "hang"]


@contextmanager
def started(command: list[str], folder: Path) -> Iterator["Popen[bytes]"]:
    """A trainer whose descendants can be told by `MARK`, whatever their parents are."""
    slime_paths = [os.environ[name] for name in ("PADDOCK_SLIME", "PADDOCK_SLIME_PATH") if name in os.environ]
    environment = {
        **os.environ,
        MARK: str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), str(ROOT / "shims"), *slime_paths]),
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
    }
    with (
        (folder / "log").open("wb") as log,
        Popen(command, cwd=folder, env=environment, stdout=log, stderr=STDOUT) as one,
    ):
        try:
            yield one
        finally:
            one.kill()
            for left in marked_family(str(folder)):
                with suppress(psutil.NoSuchProcess):
                    left.kill()


@pytest.mark.parametrize("trainer", [verl, skyrl, verifiers_command, verifiers_servers, slime])
def test_a_killed_trainer_leaves_nothing(trainer: Callable[[KilledTrainer], list[str]], stand: KilledTrainer) -> None:
    with started(trainer(stand), stand.folder) as process:
        _wait_for_rollouts(process, stand)
        family = marked_family(str(stand.folder))
        names = {one.pid: one.name() for one in family}
        assert sum("bwrap" in name for name in names.values()) >= MEMBERS
        process.kill()
        ours = [one for one in family if names[one.pid] not in AGENTS_OF_RAY]
        assert gone(ours, within_s=END_TIMEOUT_S), [one for one in ours if one.is_running()]
        assert gone(family, within_s=AGENTS_TIMEOUT_S)
        assert marked_family(str(stand.folder)) == []


def _wait_for_rollouts(process: "Popen[bytes]", stand: KilledTrainer) -> None:
    """Wait until the engine has a call of each."""
    deadline = time.monotonic() + START_TIMEOUT_S
    asked = stand.folder / "asked"
    while len(stand.engine.calls) + (len(asked.read_bytes()) if asked.exists() else 0) < MEMBERS:
        log = (stand.folder / "log").read_text(errors="replace")
        assert process.poll() is None, log[-4000:]
        assert time.monotonic() < deadline, log[-4000:]
        time.sleep(0.2)
