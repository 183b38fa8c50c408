"""A loop that comes to its end without a step has failed."""

import pytest

from paddock.errors import InfraError
from paddock.training.core.order import all_rows
from paddock.training.core.settings import AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually
from paddock.types import Outcome

ROWS, PROMPTS = 7, 2


def end(*, steps: int = 100, failed: Outcome | None = None, n_failed: int = 1000) -> RunResult:
    """`n_failed`: how many of the first groups fail."""
    world = ScriptedRun()
    counts = {"num_prompts_per_step": PROMPTS, "num_generations_per_prompt": 2, "max_num_steps": steps}
    grpo = GrpoSettings(**counts, async_grpo=AsyncGrpoSettings())
    settings = LoopSettings(grpo, GroupSettings(), all_rows(ROWS), max_length=100)
    rollouts = ScriptedRollouts(world, failed=lambda work, nth: failed if work.id < n_failed else None)

    async def run() -> RunResult:
        return await Loop(settings, rollouts, ScriptedPolicy(world), lambda report: None, clock=now).run()

    return virtually(run())


def test_a_run_that_could_train_on_none_of_its_rows_has_failed() -> None:
    none = end(failed="row")
    assert (none.why, none.steps) == ("rows", 0)
    assert none.failure == f"no step was made: {ROWS} groups are not enough for one (lost: {ROWS} dropped)"


def test_members_beyond_their_budget_are_no_failures_of_the_engines() -> None:
    some = end(failed="cancelled", n_failed=PROMPTS)
    assert (some.why, some.steps, some.lost["dropped"], some.n_retries) == ("rows", ROWS // PROMPTS, PROMPTS, PROMPTS)
    bounds: tuple[tuple[Outcome, str], ...] = (
        ("infra", "max_generation_failures bears 0"),
        ("cancelled", f"the dataset has {ROWS} rows"),
    )
    for outcome, bound in bounds:
        with pytest.raises(InfraError, match=f"in a row ended without any verdict .*{outcome}.*{bound}"):
            end(failed=outcome)


def test_one_that_made_steps_or_was_asked_for_few_has_not() -> None:
    assert (end().why, end().steps, end().failure) == ("rows", ROWS // PROMPTS, None)
    assert (end(steps=1).why, end(steps=1).failure) == ("steps", None)
