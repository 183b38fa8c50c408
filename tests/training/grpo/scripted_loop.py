"""A loop with scripted roles, for claims about who waits for whom."""

from collections.abc import Callable
from typing import Any

from paddock.training.core.order import all_rows
from paddock.training.core.settings import AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult, StepReport
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually

STEPS = 6
PROMPTS = 2


def settings(
    age: int = 1,
    *,
    in_flight: bool = True,
    failures: int = 0,
    recompute: bool = True,
    n_rows: int = 100,
    groups: GroupSettings | None = None,
    **known: Any,
) -> LoopSettings:
    asynchronous = AsyncGrpoSettings(
        max_trajectory_age_steps=age,
        in_flight_weight_updates=in_flight,
        max_generation_failures=failures,
        recompute_kv_cache_after_weight_updates=recompute,
    )
    grpo = GrpoSettings(
        num_prompts_per_step=PROMPTS,
        num_generations_per_prompt=2,
        max_num_steps=STEPS,
        async_grpo=asynchronous,
        **known,
    )
    return LoopSettings(grpo, groups or GroupSettings(), all_rows(n_rows), max_length=100)


class LoopRun:
    """A loop with its roles, run to its end."""

    def __init__(
        self, given: LoopSettings, world: ScriptedRun | None = None, *, policy: Any = None, **rollouts: Any
    ) -> None:
        self.settings = given
        self.world = world or ScriptedRun()
        self.rollouts = ScriptedRollouts(self.world, **rollouts)
        self.policy = policy(self.world) if policy else ScriptedPolicy(self.world)
        self.told: list[StepReport] = []

    async def main(self, meanwhile: Callable[["LoopRun"], None] | None = None) -> RunResult:
        loop = Loop(self.settings, self.rollouts, self.policy, self.told.append, clock=now)
        if meanwhile is not None:
            meanwhile(self)
        return await loop.run()

    def run(self) -> RunResult:
        return virtually(self.main())

    def ages(self) -> list[int]:
        rows = [(batch.step, row) for batch in self.policy.batches for row in batch.rows]
        return [step - row.oldest for step, row in rows if row.oldest is not None]

    def groups(self) -> list[list[int]]:
        return [[group.id for group in batch.groups] for batch in self.policy.batches]


def slow(ids: set[int], seconds: float) -> Callable[[GroupJob], float]:
    return lambda work: seconds if work.id in ids else 1.0
