"""A run ends with the step whose validation is good enough, as NeMo-RL's do."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.training.grpo.scripted_loop import LoopRun, settings

from paddock.errors import ConfigError
from paddock.training.core.settings import GrpoSettings
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.early_stop import EarlyStop
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult, StepReport
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually

VALIDATIONS = {0: 0.1, 2: 0.5, 4: 0.9, 6: 0.95}


def stopping(threshold: float, *, metric: str = "accuracy", at_start: bool = False) -> LoopSettings:
    return settings(
        val_period=2, val_at_start=at_start, stop_at_validation_metric=metric, stop_at_validation_threshold=threshold
    )


class CheckpointedRun:
    """A loop with checkpoints: how it ended, what it did."""

    def __init__(self, folder: Path, given: LoopSettings, validations: Mapping[int, float], *, resume: bool) -> None:
        self.world = ScriptedRun()
        self.reports: list[StepReport] = []
        rollouts = ScriptedRollouts(self.world, validations=validations)

        async def main() -> RunResult:
            roles = rollouts, ScriptedPolicy(self.world)
            return await Loop(given, *roles, self.reports.append, Checkpoints(folder), clock=now).run(resume=resume)

        self.ended = virtually(main())


@pytest.mark.parametrize(
    ("threshold", "why", "steps"),
    [(0.9, "validation", 4), (0.5, "validation", 2), (0.95, "validation", 6), (0.96, "steps", 6)],
)
def test_it_ends_with_the_step_whose_validation_reaches_the_threshold(threshold: float, why: str, steps: int) -> None:
    one = LoopRun(stopping(threshold), validations=VALIDATIONS)
    ended = one.run()
    assert (ended.why, ended.steps) == (why, steps)
    assert one.told[-1].metrics["validation/accuracy"] == VALIDATIONS[steps]
    assert one.world.of("train") == list(range(steps))
    assert sorted(one.world.of("begin")) == sorted([*one.world.of("end"), *one.world.of("cancel")])


def test_a_model_that_is_good_enough_at_the_start_is_not_trained() -> None:
    one = LoopRun(stopping(0.1, at_start=True), validations=VALIDATIONS)
    ended = one.run()
    assert (ended.why, ended.steps, ended.failure) == ("validation", 0, None)
    assert [(report.steps, report.batch) for report in one.told] == [(0, None)]
    assert one.world.of("train") == []


def test_its_last_step_is_stored_and_a_resumed_run_ends_at_once_unless_more_is_asked(tmp_path: Path) -> None:
    first = CheckpointedRun(tmp_path, stopping(0.9), VALIDATIONS, resume=False)
    assert first.ended.checkpoint == tmp_path / "step_4", "save_period is 10"
    again = CheckpointedRun(tmp_path, stopping(0.9), VALIDATIONS, resume=True)
    assert (again.ended.why, again.ended.steps, again.reports, again.world.of("train")) == ("validation", 4, [], [])
    longer = CheckpointedRun(tmp_path, stopping(0.95), VALIDATIONS, resume=True)
    assert (longer.ended.why, longer.ended.steps, longer.world.of("train")) == ("validation", 6, [4, 5])


def test_a_step_without_a_validation_does_not_end_the_run_by_that_of_a_step_before(tmp_path: Path) -> None:
    given = stopping(0.9)._replace(save_period=1)
    CheckpointedRun(
        tmp_path, given._replace(grpo=given.grpo.model_copy(update={"max_num_steps": 3})), {2: 0.5}, resume=False
    )
    lower = stopping(0.4)
    assert CheckpointedRun(tmp_path, lower, VALIDATIONS, resume=True).world.of("train")[0] == 3


def test_a_metric_that_the_first_validation_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"has no acuracy; nearest: accuracy; it has accuracy, n_rollouts") as raised:
        LoopRun(stopping(0.9, metric="acuracy"), validations=VALIDATIONS).run()
    assert raised.value.kind == "stop_metric"


def test_failures_of_a_validation_neither_end_a_run_nor_are_taken_for_a_wrong_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert LoopRun(stopping(0.9, metric="acuracy"), validations={}).run().why == "steps", "no verdict at all"
    of_agent = EarlyStop(stopping(0.9, metric="agent/swe/accuracy").grpo)
    verdicts = {"validation/n_verdicts": 4.0}
    assert not of_agent.ends({**verdicts, "validation/agent/swe/accuracy": 0.2})
    assert not of_agent.ends(verdicts)
    assert "the validation has no agent/swe/accuracy" in caplog.text
    assert of_agent.ends({**verdicts, "validation/agent/swe/accuracy": 0.9})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stop_at_validation_metric": "accuracy"}, "need each other"),
        ({"stop_at_validation_threshold": 0.5}, "need each other"),
        (
            {"stop_at_validation_metric": "pass_k", "stop_at_validation_threshold": 0.5},
            "val_num_generations_per_prompt",
        ),
    ],
)
def test_half_a_rule_is_refused(given: dict[str, str | float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GrpoSettings.model_validate(given)
