"""Claims about a trainer's rollouts in real sandboxes: ids as they were sampled, and nothing left of a dead trainer."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from paddock.config import load
from paddock.rollouts import Completion, open_rollouts
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(300)]
TRAINER = """
import asyncio, sys
from pathlib import Path
import orjson
from paddock.config import load
from paddock.rollouts import open_rollouts

tree, row, model = map(orjson.loads, Path(sys.argv[1]).read_bytes().splitlines())

async def sample(ids, sampling, *, rollout):
    print("asked", flush=True)
    await asyncio.sleep(3600)

config, settings = load([], extra=tree, servers=()), {"tokenizer": model}
with open_rollouts(config, engine=sample, engine_settings=settings, model_server="policy") as rollouts:
    rollouts.run_group(row, 3)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)


def test_a_group_in_sandboxes_has_the_ids_that_were_sampled(swe_case: Any, model: Path) -> None:
    vocabulary = small_vocabulary()
    answers: list[list[int]] = []

    async def sample(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        text = f"Nothing is to be done, and that is answer {len(answers)}.<|im_end|>"
        answers.append(vocabulary.encode(text))
        return Completion(answers[-1], [-1.0] * len(answers[-1]))

    config = load([], extra=swe_case.tree, servers=())
    settings = {"tokenizer": str(model)}
    with open_rollouts(config, engine=sample, engine_settings=settings, model_server="policy") as rollouts:
        group = rollouts.run_group(swe_case.row, 3)
    assert group.rewards == [0.0] * 3
    assert {member.reason for member in group.members} == {"no_patch"}
    samples = [entry.sample for member in group.members for entry in member.samples]
    trained = [one.ids[span.start : span.end] for one in samples for span in one.spans if span.trained]
    assert sorted(trained) == sorted(answers)


def test_a_trainer_that_is_killed_leaves_no_process(swe_case: Any, model: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    given.write_bytes(b"\n".join(map(orjson.dumps, (swe_case.tree, swe_case.row, str(model)))))
    command = [sys.executable, "-c", TRAINER, str(given)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as trainer:
        assert trainer.stdout is not None
        for _ in range(3):
            assert trainer.stdout.readline() == b"asked\n"
        below = psutil.Process(trainer.pid).children(recursive=True)
        trainer.send_signal(signal.SIGKILL)
    assert below
    assert asyncio.run(_all_gone(below))


async def _all_gone(processes: list[psutil.Process]) -> bool:
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, 20)
    return not alive
