"""Claims about metrics of all groups that ended: nothing that failed or was lost is missing in them."""

import random

import numpy as np
import pytest
from tests.training.grpo.scripted_loop import LoopRun, settings

from paddock.training.core.settings import GroupSettings
from paddock.training.grpo.metrics_log import MetricsLine
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.summary import page, summarise
from paddock.types import Outcome

SIZE = 2
ENVIRONMENTS = {"agent-0": "well", "agent-1": "broken", "agent-2": "broken"}


def agent_of(work: GroupJob) -> str:
    return f"agent-{work.row % 3}"


def broken(work: GroupJob, nth: int) -> Outcome | None:
    """Every other group of two agents fails as a whole; it is dropped, and its row run again."""
    return "verifier" if agent_of(work) != "agent-0" and work.id % 2 else None


def test_failures_of_dropped_and_retried_groups_are_counted_where_training_sees_none() -> None:
    run = LoopRun(settings(failures=99)._replace(environments=ENVIRONMENTS), agent=agent_of, failed=broken, size=SIZE)
    run.run()
    lost = [lost.id for report in run.told for lost in report.lost]
    trained = [group.id for report in run.told if report.batch for group in report.batch.groups]
    counted = sum(report.metrics.get("rollouts/count/all", 0.0) for report in run.told)
    assert lost and counted >= SIZE * len({*lost, *trained})
    assert counted == SIZE * len([nth for nth in run.world.of("end") if nth in run_ended(run)])
    failed = sum(report.metrics.get("rollouts/outcome/verifier", 0.0) for report in run.told)
    assert failed == SIZE * len(lost)
    assert all(report.metrics["train/outcome/verifier"] == 0.0 for report in run.told), "training looks well"
    summary = summarise([MetricsLine(each.steps, True, each.metrics) for each in run.told], {"steps": 6})
    rates = summary["failed_rate"]
    assert rates["environment/well"] == rates["agent/agent-0"] == 0.0
    assert rates["environment/broken"] > 0.2
    assert rates["all"] == pytest.approx(failed / counted)
    assert f"| rollouts without a verdict: environment/broken | {rates['environment/broken']:.4g} |" in page(
        summary, []
    )


def run_ended(run: LoopRun) -> set[int]:
    """Groups that ended before the last report."""
    last = run.world.at("sent", run.told[-1].steps)
    return {event.of for event in run.world.events if event.what == "end" and event.at_s <= last}


def test_durations_tell_what_was_started_trained_on_and_lost() -> None:
    draw = random.Random(0)
    seconds = {nth: draw.lognormvariate(0, 1) for nth in range(1000)}
    groups = GroupSettings(age_policy="cancel")
    run = LoopRun(settings(groups=groups), seconds=lambda work: seconds[work.id])
    run.run()
    assert sum(len(report.lost) for report in run.told)
    for report in run.told:
        assert report.batch is not None
        trained = [group.seconds for group in report.batch.groups]
        assert report.metrics["train/group_s/p50"] == pytest.approx(np.percentile(trained, 50))
        assert report.metrics["train/group_s/p95"] == pytest.approx(np.percentile(trained, 95))
        lost = [each.seconds for each in report.lost if each.seconds is not None]
        assert report.metrics.get("lost/group_s/max") == (pytest.approx(max(lost)) if lost else None)
        for longest in lost:
            assert report.metrics["rollouts/group_s/max"] >= longest - 1e-9, "a lost group was started"
