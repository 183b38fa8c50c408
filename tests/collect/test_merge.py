"""Claims about shards: together they are the run that one collector would have made."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.collect import CollectionResult, Plan, evaluate, read_summary
from paddock.collect.merge import merge
from paddock.collect.recovery import recover
from paddock.errors import ConfigError

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Awaitable[CollectionResult]]
ROW = {"responses_create_params": {"input": "q"}, "answer": "yes"}
ROWS: list[Any] = [ROW, b"broken", {**ROW, "answer": "no"}, {**ROW, "grade": "leak"}, ROW, ROW, ROW]


async def test_merged_shards_equal_the_whole(make_case: MakeCase, run_plan: RunPlan, tmp_path: Path) -> None:
    whole = await run_plan(make_case(ROWS, repeats=2), "whole")
    for shard in range(3):
        await run_plan(make_case(ROWS, repeats=2, shard=f"{shard}/3"), f"s{shard}")
    merged = merge([tmp_path / f"s{shard}" for shard in (2, 0, 1)], tmp_path / "merged")
    assert (merged.n_rollouts, merged.n_verdicts) == (whole.n_rollouts, whole.n_verdicts)
    timeless = ("seconds", "rollouts_per_s")
    assert [{k: v for k, v in run.items() if k not in timeless} for run in merged.summary] == [
        {k: v for k, v in run.items() if k not in timeless} for run in whole.summary
    ]
    rewards = {result.key: result.reward for result in recover(tmp_path / "whole").results()}
    found = recover(tmp_path / "merged")
    assert {result.key: result.reward for result in found.results()} == rewards
    assert [result.key for result in found.verdicts] == sorted(result.key for result in found.verdicts)
    assert found.repairs == []
    assert read_summary(tmp_path / "merged") == merged.summary


async def test_the_pace_of_a_merged_run_is_that_of_its_shards(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    walls = []
    for shard in range(2):
        await run_plan(make_case(6, shard=f"{shard}/2"), f"s{shard}")
        again = await run_plan(make_case(6, shard=f"{shard}/2"), f"s{shard}", resume=True)
        walls.append(again.summary[0]["seconds"]["wall"])
    (merged,) = merge([tmp_path / "s0", tmp_path / "s1"], tmp_path / "merged").summary
    assert merged["seconds"]["wall"] == max(walls)
    assert merged["rollouts_per_s"] * max(walls) == pytest.approx(6)


async def test_a_merged_run_that_is_not_complete_can_be_resumed(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    for shard in range(2):
        await run_plan(make_case(6, shard=f"{shard}/2"), f"s{shard}")
    cut = tmp_path / "s1" / "rollouts.jsonl"
    cut.write_bytes(b"".join(cut.read_bytes().splitlines(keepends=True)[:1]))
    assert merge([tmp_path / "s0", tmp_path / "s1"], tmp_path / "merged").n_verdicts == 4
    collected = await evaluate(make_case(6), tmp_path / "merged", resume=True, quiet=True)
    assert collected.n_verdicts == 6


async def test_shards_that_do_not_make_one_run_are_refused(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    await run_plan(make_case(4, shard="0/2"), "a")
    await run_plan(make_case(4, shard="1/2", repeats=2), "b")
    a, b = tmp_path / "a", tmp_path / "b"
    with pytest.raises(ConfigError, match=r"b is of another run than .*repeats"):
        merge([a, b], tmp_path / "merged")
    with pytest.raises(ConfigError, match="shard 1 is missing"):
        merge([a], tmp_path / "merged")
    with pytest.raises(ConfigError, match="holds no run"):
        merge([a, tmp_path / "c"], tmp_path / "merged")
    with pytest.raises(ConfigError, match="holds a run already"):
        merge([a], b)
    assert not (tmp_path / "merged" / "rollouts.jsonl").exists()
