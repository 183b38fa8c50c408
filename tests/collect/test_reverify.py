"""Claims about scoring again: a stored rollout is enough, and what changed is said."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from paddock.collect import CollectionResult, Plan
from paddock.collect.lines import seal
from paddock.collect.reverify import reverify
from paddock.config import Config
from paddock.errors import ConfigError
from paddock.http import rollout_from_wire
from paddock.types.step_rewards import JudgedStep, StepRewards, combine_rewards


@pytest.fixture
async def folder(
    make_case: Callable[..., Plan], run_plan: Callable[..., Awaitable[CollectionResult]], tmp_path: Path
) -> Path:
    await run_plan(make_case(6, repeats=2))
    return tmp_path / "run"


async def test_every_verdict_comes_out_again_from_its_stored_rollout(
    folder: Path, make_config: Callable[..., Config]
) -> None:
    # The model would refuse every call: it is not asked.
    found = await reverify(make_config(model={"fail": "refuse", "fail_first": 999}), folder, concurrency=5)
    assert (found.n, found.changed, found.failed) == (12, [], [])
    assert (folder / "reverified.jsonl").read_bytes() == (folder / "rollouts.jsonl").read_bytes()


async def test_a_changed_reward_is_named_and_the_rollouts_stay(
    folder: Path, make_config: Callable[..., Config]
) -> None:
    rollouts = folder / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    changed = orjson.loads(lines[3])
    changed["answer"] = "no" if changed["answer"] == "yes" else "yes"
    lines[3] = orjson.dumps(changed) + b"\n"
    rollouts.write_bytes(b"".join(lines))
    found = await reverify(make_config(), folder)
    assert [change.line for change in found.changed] == [4]
    assert "0 -> 1" in str(found.changed[0]) or "1 -> 0" in str(found.changed[0])
    assert rollouts.read_bytes() == b"".join(lines)
    again = orjson.loads((folder / "reverified.jsonl").read_bytes().splitlines()[3])
    assert again["reward"] == found.changed[0].now != changed["reward"]


async def test_what_can_not_be_scored_is_no_reward(folder: Path, make_config: Callable[..., Config]) -> None:
    found = await reverify(make_config(environment={"grade": "raise"}), folder)
    assert (found.n, len(found.failed), found.changed) == (12, 12, [])
    assert all(change.now is None for change in found.failed)
    assert (folder / "reverified.jsonl").read_bytes() == b""


async def test_scores_of_steps_are_kept_and_combined_with_the_new_verdict(
    folder: Path, make_config: Callable[..., Config]
) -> None:
    rollouts = folder / "rollouts.jsonl"
    lines = [rollout_from_wire(orjson.loads(line)) for line in rollouts.read_bytes().splitlines()]
    steps = StepRewards(coefficient=0.5, scores=[JudgedStep(step_id="step_1", turn=1, score=-1.0, votes=[-1])])
    judged = [one.model_copy(update={"verdict": combine_rewards(one.verdict, steps)}) for one in lines if one.verdict]
    rollouts.write_bytes(b"".join(seal(orjson.dumps(one.to_wire()) + b"\n") for one in judged))
    found = await reverify(make_config(), folder)
    assert (found.n, found.changed, found.failed) == (12, [], [])
    assert (folder / "reverified.jsonl").read_bytes() == rollouts.read_bytes()
    torn = orjson.loads(rollouts.read_bytes().splitlines()[0])
    torn["step_rewards"]["scores"] = "none"
    rollouts.write_bytes(orjson.dumps(torn) + b"\n")
    found = await reverify(make_config(), folder)
    assert [change.why[:15] for change in found.failed] == ["rollout_invalid"]


async def test_a_line_that_is_no_rollout_is_named(folder: Path, make_config: Callable[..., Config]) -> None:
    rollouts = folder / "rollouts.jsonl"
    rollouts.write_bytes(rollouts.read_bytes() + b'{"reward": 1}\n')
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:13: no rollout"):
        await reverify(make_config(), folder)


async def test_a_line_that_was_changed_after_it_was_written_is_scored_and_said(
    folder: Path, make_config: Callable[..., Config]
) -> None:
    rollouts = folder / "rollouts.jsonl"
    rollouts.write_bytes(rollouts.read_bytes().replace(b'"answer":"yes"', b'"answer":"other"', 1))
    found = await reverify(make_config(), folder)
    assert [change.why for change in found.changed] == [
        "right before, wrong now; the stored line does not match its digest"
    ]


async def test_no_rollouts_is_a_mistake(tmp_path: Path, make_config: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="there are no rollouts"):
        await reverify(make_config(), tmp_path)
