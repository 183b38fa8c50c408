"""Claims about the figures of a batch."""

import math

import pytest

from paddock.training.core.metrics import batch_metrics
from paddock.training.core.records import Flaw
from paddock.training.core.testing import batch, group, member, sample


def test_figures_of_a_batch() -> None:
    members = [
        member(0, 1.0, reason="resolved", metrics={"close": 1.0}, total_s=4.0),
        member(1, 0.0, reason="no_patch", flaws=[Flaw("a", "invalid_tool_call")], total_s=2.0),
        member(2, 0.0, reason="patch_does_not_apply", samples=[]),
        member(3, 0.0, outcome="truncated", samples=[sample([("a", 1, 2, "0"), ("b", 2, 5, "1")], cut=True)]),
        member(4, None, outcome="verifier", reason="timeout", total_s=900.0),
    ]
    alike = group(member(0, 1.0), member(1, 1.0), group_id=1)
    dropped = group(member(0, 0.0), group_id=2, size=3)
    found = batch_metrics(batch(group(*members), alike, dropped, step=2))
    expected = {
        "total_reward/mean": 3 / 7,
        "total_reward/max": 1.0,
        "turns_per_sample/mean": 1.0,
        "rollout_s/max": 4.0,
        "no_patch_rate": 1 / 7,
        "patch_cannot_apply_rate": 1 / 7,
        "truncation_rate": 1 / 7,
        "invalid_tool_call_rate": 1 / 7,
        "malformed_thinking_rate": 0.0,
        "verdict/close/mean": 1.0,
        "outcome/completed": 6.0,
        "outcome/truncated": 1.0,
        "outcome/verifier": 1.0,
        "outcome/infra": 0.0,
        "outcome/missing": 2.0,
        "masked/verifier": 1.0,
        "masked/not_exact": 1.0,
        "masked/overlong": 0.0,
        "groups": 2.0,
        "groups_dropped": 1.0,
        "groups_alike_rate": 0.5,
        "group_size/mean": 3.0,
        "samples": 5.0,
        "tokens": 12.0,
        "context_tokens": 18.0,
        "tokens_per_sample/mean": 2.4,
        "staleness/mean": (9 * 2 + 3 * 1) / 12,
        "staleness/max": 2.0,
        "mixed_versions_rate": 0.2,
    }
    assert {name: found[f"train/{name}"] for name in expected} == pytest.approx(expected)
    assert all(math.isfinite(value) for value in found.values())


def test_without_a_verdict_there_is_no_mean() -> None:
    found = batch_metrics(batch(group(member(0, None), size=2)))
    assert not [name for name in found if "reward" in name or "staleness" in name or "_rate" in name]
    assert found["train/outcome/infra"] == 1.0
    assert found["train/groups_dropped"] == 1.0
    assert batch_metrics(batch())["train/tokens"] == 0.0


def test_the_penalty_of_a_leak_is_no_reward() -> None:
    found = batch_metrics(batch(group(member(0, 1.0), member(1, -1.0, outcome="leak"), member(2, 0.0))))
    assert found["train/total_reward/mean"] == 0.5
    assert found["train/outcome/leak"] == 1.0


def test_figures_of_each_agent() -> None:
    calls = [member(0, 1.0, agent="calls"), member(1, 0.0, agent="calls"), member(2, None, agent="calls")]
    sums = [member(0, 0.5, agent="sums"), member(1, 0.5, agent="sums")]
    found = batch_metrics(batch(group(*calls), group(*sums, group_id=1)))
    expected = {
        "calls/total_reward/mean": 0.5,
        "calls/failed_rate": 1 / 3,
        "calls/groups": 1.0,
        "calls/groups_alike_rate": 0.0,
        "sums/total_reward/mean": 0.5,
        "sums/total_reward/stddev": 0.0,
        "sums/failed_rate": 0.0,
        "sums/groups_alike_rate": 1.0,
    }
    assert {name: found[f"train/agent/{name}"] for name in expected} == pytest.approx(expected)
    tokens = [found[f"train/agent/{name}/tokens"] for name in ("calls", "sums")]
    assert sum(tokens) == found["train/tokens"]
    assert min(tokens) > 0
