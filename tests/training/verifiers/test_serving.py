"""Claims about our environments behind verifiers' environment server, and about prime-rl's baseline over them.

That of prime-rl needs its sources (PADDOCK_PRIME_RL: a checkout), and torch, msgspec and wandb beside verifiers.
"""

import asyncio
import os
import subprocess
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.training.verifiers.conftest import PYTHON, ROOT, ROWS, SIZE, python_path, read_samples, taskset_keys
from tests.training.verifiers.token_endpoint import FAILS, TokenEndpoint

from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.types import JsonObject

PRIME = os.environ.get("PADDOCK_PRIME_RL")
CALL = '<tool_call>\n{"name": "exec_cmd", "arguments": {"cmd": "ls"}}\n</tool_call>'
pytestmark = [
    pytest.mark.trainer,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PYTHON is None, reason="PADDOCK_VERIFIERS_PYTHON: no environment with verifiers"),
]


async def drive(folder: Path, rows: Path, *further: str) -> JsonObject:
    """Serve the rows' rollouts, one of five of which fails; what came of them."""
    write_model_folder(folder / "model", chat_template=TEMPLATES["chatml"].source)
    (folder / "taskset.json").write_bytes(orjson.dumps(taskset_keys(folder, rows, engine={"tool_parser": "hermes"})))
    calls = Counter[str]()

    def answer(prompt: str) -> str:
        calls[prompt] += 1
        return FAILS if calls[prompt] == SIZE else CALL if calls[prompt] == 1 else f"I would do {calls[prompt]}."

    async with TokenEndpoint(answer) as endpoint:
        words = [str(PYTHON), "-m", "tests.training.verifiers.drive", str(folder), endpoint.url, str(SIZE), "64"]
        process = await asyncio.create_subprocess_exec(
            *words, cwd=ROOT, env=python_path(str(ROOT), *further), stderr=subprocess.PIPE
        )
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()[-3000:]
        assert {body["cache_salt"] for body in endpoint.bodies} == {"3"}
    found: JsonObject = orjson.loads(await asyncio.to_thread((folder / "served.json").read_bytes))
    return found


async def test_episodes_come_over_the_wire_of_the_environment_server_as_paddock_samples(
    tmp_path: Path, rows: Path
) -> None:
    found = await drive(tmp_path, rows)
    members = list(chain.from_iterable(found["groups"]))
    assert Counter(member["ok"] for member in members) == {True: ROWS * (SIZE - 1), False: ROWS}
    assert all(not member["branches"] for member in members if not member["ok"])
    given = [(*_tokens(branch), member["reward"]) for member in members for branch in member["branches"]]
    ours = [(*_tokens(line), line["reward"]) for line in read_samples(tmp_path)]
    assert sorted(given) == sorted(ours)
    assert len(given) == ROWS * (SIZE - 1)
    branching = found["branching"]
    assert len(branching["samples"]) == 2
    assert list(map(_tokens, branching["branches"])) == list(map(_tokens, branching["samples"]))


@pytest.mark.parametrize("most", [3, None])
async def test_no_more_rollouts_run_than_may_whatever_a_trainer_asks_for(
    tmp_path: Path, rows: Path, most: int | None
) -> None:
    """The episodes of a group are asked for at once."""
    write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    keys = taskset_keys(tmp_path, rows, engine={"tool_parser": "hermes"})
    keys["overrides"] += [f"rollouts.max_rollouts={most}"] if most else []
    (tmp_path / "taskset.json").write_bytes(orjson.dumps(keys))
    async with TokenEndpoint(lambda _: "I would look first.", delay_s=0.3) as endpoint:
        words = [str(PYTHON), "-m", "tests.training.verifiers.drive", str(tmp_path), endpoint.url, str(SIZE), "64"]
        process = await asyncio.create_subprocess_exec(
            *words, cwd=ROOT, env=python_path(str(ROOT)), stderr=subprocess.PIPE
        )
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    assert endpoint.most_at_once == most if most else endpoint.most_at_once > 3


@pytest.mark.skipif(PRIME is None, reason="PADDOCK_PRIME_RL: no checkout of prime-rl")
async def test_prime_rl_leaves_failed_rollouts_out_of_the_baseline(tmp_path: Path, rows: Path) -> None:
    found = await drive(tmp_path, rows, f"{PRIME}/src", f"{PRIME}/packages/prime-rl-configs/src")
    for group in found["groups"]:
        there = [member for member in group if member["ok"]]
        assert len(there) == SIZE - 1
        mean = sum(member["reward"] for member in there) / len(there)
        for member in there:
            (branch,), (values,) = member["branches"], member["advantages"]
            trained = [value for value, on in zip(values, branch["loss_mask"], strict=True) if on]
            assert trained == pytest.approx([member["reward"] - mean] * len(trained))
        assert all(not member["advantages"] for member in group if not member["ok"])


def _tokens(sample: dict[str, Any]) -> tuple[list[int], list[int], list[float]]:
    return sample["ids"], [int(flag) for flag in sample["loss_mask"]], sample["log_probs"]
