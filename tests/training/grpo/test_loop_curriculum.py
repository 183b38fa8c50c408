"""Claims about runs with a curriculum: what is drawn follows what is measured, nothing is lost for it, and a killed run
goes on as it would have."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import few

from paddock.training.core.order import all_rows
from paddock.training.core.records import Member
from paddock.training.core.settings import AsyncGrpoSettings, CurriculumSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult, StepReport
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually
from paddock.types import Outcome

N_ROWS, PROMPTS, SIZE = 40, 4, 8
CURRICULUM = CurriculumSettings(easy_weight=0.1, hard_weight=0.25)


class SkilledRun:
    """A run whose policy has a skill: it solves rows below it, never those far above, and of those between a share. A
    group with a difference in its rewards adds to the skill, one that is alike adds nothing."""

    def __init__(
        self,
        curriculum: CurriculumSettings,
        *,
        steps: int,
        age: int = 0,
        folder: Path | None = None,
        failed: Any = lambda work, nth: None,
        save_s: float = 0.0,
    ) -> None:
        """`save_s`: how long a checkpoint is written in the background; 0: it is waited for."""
        grpo = GrpoSettings(
            num_prompts_per_step=PROMPTS,
            num_generations_per_prompt=SIZE,
            max_num_steps=steps,
            max_num_epochs=10_000,
            async_grpo=AsyncGrpoSettings(
                max_trajectory_age_steps=age, in_flight_weight_updates=True, max_generation_failures=99
            ),
        )
        self.settings = LoopSettings(
            grpo,
            GroupSettings(),
            all_rows(N_ROWS),
            max_length=100,
            save_period=2,
            save_in_background=save_s > 0,
            curriculum=curriculum,
        )
        self.world = ScriptedRun()
        self.policy = ScriptedPolicy(self.world, save_s=save_s)
        self.rollouts = ScriptedRollouts(
            self.world, size=SIZE, seconds=self._seconds, changed=self._rewarded, failed=failed
        )
        self.checkpoints = Checkpoints(folder) if folder is not None else None
        self.told: list[StepReport] = []

    @property
    def skill(self) -> float:
        return sum(self._learned(batch) for batch in self.policy.batches)

    @property
    def drawn(self) -> list[list[tuple[int, int]]]:
        """Rounds and rows of the groups of each step."""
        return [[(group.epoch, group.row) for group in told.batch.groups] for told in self.told if told.batch]

    def run(self, *, resume: bool = False, kill_at: int | None = None) -> RunResult | None:
        """None: it was killed at that event."""

        async def main() -> RunResult | None:
            loop = Loop(self.settings, self.rollouts, self.policy, self.told.append, self.checkpoints, clock=now)
            running = asyncio.ensure_future(loop.run(resume=resume))

            def kill(what: str, of: int) -> None:
                if len(self.world.events) == kill_at:
                    running.cancel()

            self.world.on_event = kill
            try:
                return await running
            except asyncio.CancelledError:
                return None

        return virtually(main())

    def _learned(self, batch: Any) -> float:
        groups = ([member.reward for member in group.members] for group in batch.groups)
        return sum(0.02 * (len(set(rewards)) > 1) for rewards in groups)

    def _rewarded(self, work: GroupJob, nth: int, ended: Member) -> Member:
        level = work.row / N_ROWS * 4
        solves = min(1.0, max(0.0, 0.5 + 2 * (self.policy.steps * 0.04 - level)))
        draw = random.Random(f"{work.row}/{work.epoch}/{nth}").random()
        return ended._replace(reward=float(draw < solves))

    @staticmethod
    def _seconds(work: GroupJob) -> float:
        return random.Random(work.id).lognormvariate(0, 1)


def shares(run: SkilledRun, steps: slice) -> dict[str, float]:
    """The part of the groups of these steps whose rewards were all 1, all 0, or differed."""
    kinds: Counter[str] = Counter()
    for told in run.told[steps]:
        assert told.batch is not None
        for group in told.batch.groups:
            rewards = {member.reward for member in group.members}
            kinds["differ" if len(rewards) > 1 else "easy" if rewards == {1.0} else "hard"] += 1
    return {kind: count / kinds.total() for kind, count in kinds.items()}


def test_pools_follow_the_pass_rates_and_steps_have_more_to_learn_from() -> None:
    uniform, pooled = SkilledRun(CurriculumSettings(), steps=100), SkilledRun(CURRICULUM, steps=100)
    for run in (uniform, pooled):
        ended = run.run()
        assert ended is not None and ended.why == "steps"
    assert pooled.skill > 1.5 * uniform.skill
    for part in (slice(20, 50), slice(50, 80)):
        assert shares(pooled, part)["differ"] > 1.5 * shares(uniform, part)["differ"]
    metrics = [told.metrics for told in pooled.told]
    assert metrics[0]["curriculum/unmeasured"] == N_ROWS - PROMPTS
    assert [metrics[step]["curriculum/easy"] for step in (0, 30, 60, 99)] == sorted(
        metrics[step]["curriculum/easy"] for step in (0, 30, 60, 99)
    )
    assert metrics[99]["curriculum/easy"] > N_ROWS / 2, "what was hard has become easy"
    assert "curriculum/easy" not in uniform.told[0].metrics
    rows = Counter(row for step in pooled.drawn for _, row in step)
    assert set(rows) == set(range(N_ROWS)), "no row is left out"


@pytest.mark.parametrize("age", [0, 1, 3])
def test_no_group_is_lost_for_a_curriculum(age: int) -> None:
    run = SkilledRun(CURRICULUM, steps=60, age=age)
    ended = run.run()
    assert ended is not None and (ended.steps, sum(ended.lost.values())) == (60, 0)
    turns = [turn for step in run.drawn for turn in step]
    assert len(turns) == len(set(turns)) == 60 * PROMPTS


def failing(work: GroupJob, nth: int) -> Outcome | None:
    return "infra" if work.id % 7 == 3 else None


@pytest.mark.parametrize(
    ("kill_at", "save_s"),
    few([*((at, 0.0) for at in range(20, 260, 24)), (140, 6.0)], [(44, 0.0), (140, 0.0), (140, 6.0)]),
)
def test_killed_it_goes_on_as_it_would_have(tmp_path: Path, kill_at: int, save_s: float) -> None:
    """On-policy: what a step draws then depends on nothing that a kill changes."""
    whole = SkilledRun(CURRICULUM, steps=24, folder=tmp_path / "whole", failed=failing)
    whole.run()
    first = SkilledRun(CURRICULUM, steps=24, folder=tmp_path / "killed", failed=failing, save_s=save_s)
    assert first.run(kill_at=kill_at) is None
    assert first.checkpoints is not None
    newest = first.checkpoints.newest()
    done = newest.step if newest is not None else 0
    second = SkilledRun(CURRICULUM, steps=24, folder=tmp_path / "killed", failed=failing)
    assert second.run(resume=True) is not None
    assert first.drawn[:done] + second.drawn == whole.drawn
    pools = [{name: value for name, value in told.metrics.items() if "curriculum" in name} for told in second.told]
    assert pools == [
        {name: value for name, value in told.metrics.items() if "curriculum" in name} for told in whole.told[done:]
    ]
