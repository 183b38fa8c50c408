"""Claims about runs that are killed and go on: the same counters, no group lost, none doubled."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sampling import few

from paddock.errors import ConfigError, InfraError
from paddock.training.core.ledger import LostGroup
from paddock.training.core.order import EpochRow, RowOrder, all_rows
from paddock.training.core.records import Group
from paddock.training.core.settings import AgePolicyName, AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.core.testing import as_lists
from paddock.training.grpo.checkpoints import LOOP, OLD_NAMES, Checkpoints
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult, StepReport
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually
from paddock.types import Outcome

STEPS = 5
MEMORY = Path("/dev/shm")
"""Where flushing takes no time: what is killed here is a run, not a machine."""
PROMPTS = 2
N_ROWS = 7


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        yield Path(folder)


class ResumePlan(NamedTuple):
    """What is the same in all parts of a run."""

    folder: Path
    age: int = 2
    in_flight: bool = True
    save_period: int = 2
    steps: int = STEPS
    metric: str | None = None
    keep_top_k: int | None = None
    must_save_by_s: float | None = None
    failed: Outcome | None = None
    slow: bool = False
    validations: dict[int, float] = {}
    export: Path | None = None
    n_rows: int = N_ROWS
    policy: AgePolicyName = "target_step"
    save_s: float = 0.0
    """How long a checkpoint is written in the background; 0: it is waited for."""

    @property
    def settings(self) -> LoopSettings:
        asynchronous = AsyncGrpoSettings(
            max_trajectory_age_steps=self.age, in_flight_weight_updates=self.in_flight, max_generation_failures=99
        )
        grpo = GrpoSettings(
            num_prompts_per_step=PROMPTS,
            num_generations_per_prompt=2,
            max_num_steps=self.steps,
            max_num_epochs=9,
            val_period=2 if self.validations else 0,
            async_grpo=asynchronous,
        )
        return LoopSettings(
            grpo,
            GroupSettings(age_policy=self.policy),
            all_rows(self.n_rows),
            max_length=100,
            metric=self.metric,
            save_period=self.save_period,
            save_in_background=self.save_s > 0,
            must_save_by_s=self.must_save_by_s,
            export=self.export,
        )

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder, keep_top_k=self.keep_top_k)

    def ends(self, work: GroupJob, nth: int) -> Outcome | None:
        return self.failed if work.id % 4 == 2 else None

    def seconds(self, work: GroupJob) -> float:
        return 40.0 if self.slow and work.id % 5 == 1 else 1.0 + work.id % 3


class RunPart(NamedTuple):
    """From a start to an end, or to the kill."""

    world: ScriptedRun
    told: list[StepReport]
    policy: ScriptedPolicy
    rollouts: ScriptedRollouts
    ended: RunResult | None


def part(plan: ResumePlan, *, resume: bool = False, kill_at: int | None = None) -> RunPart:
    """`kill_at`: the number of the event at which it is killed."""
    world = ScriptedRun()
    rollouts = ScriptedRollouts(world, seconds=plan.seconds, failed=plan.ends, validations=plan.validations)
    policy, told = ScriptedPolicy(world, save_s=plan.save_s), list[StepReport]()

    async def main() -> RunResult | None:
        loop = Loop(plan.settings, rollouts, policy, told.append, plan.checkpoints, clock=now)
        run = asyncio.ensure_future(loop.run(resume=resume))

        def kill(what: str, of: int) -> None:
            if len(world.events) == kill_at:
                run.cancel()

        world.on_event = kill
        try:
            return await run
        except asyncio.CancelledError:
            return None

    return RunPart(world, told, policy, rollouts, virtually(main()))


class RunHistory:
    """What has survived of a run, as who writes down what is told keeps it."""

    def __init__(self, plan: ResumePlan) -> None:
        self.plan = plan
        self.told: list[StepReport] = []

    def go(self, *, kill_at: int | None = None, resume: bool = True) -> RunPart:
        newest = self.plan.checkpoints.newest()
        done = newest.step if newest is not None and resume else 0
        self.told = [told for told in self.told if told.steps <= done]
        one = part(self.plan, resume=resume, kill_at=kill_at)
        self.told += one.told
        return one

    def check(self, ended: RunResult | None) -> None:
        assert ended is not None
        assert (ended.why, ended.steps, ended.n_trained) == ("steps", STEPS, STEPS * PROMPTS)
        assert [told.steps for told in self.told] == list(range(1, STEPS + 1))
        groups = [group for told in self.told if told.batch is not None for group in told.batch.groups]
        lost = [each for told in self.told for each in told.lost]
        places: list[Group | LostGroup] = [*groups, *lost]
        ids = [each.id for each in places]
        assert len(ids) == len(set(ids)), "no group twice, whether trained on or lost"
        assert len(groups) == ended.n_trained
        order = RowOrder(all_rows(N_ROWS), seed=self.plan.settings.grpo.seed, shuffle=True, max_epochs=9)
        turns = {order.take(): nth for nth in range(ended.n_started)}
        again = {turns[EpochRow(one.epoch, one.row)] for one in lost if one.again}
        trained = [(group.epoch, group.row) for group in groups]
        assert len(trained) == len(set(trained)), "each turn of a row once"
        firsts = {turns[EpochRow(each.epoch, each.row)]: each.id for each in sorted(places, key=_id, reverse=True)}
        first_ids = [firsts[turn] for turn in sorted(firsts) if turn not in again]
        assert first_ids == sorted(first_ids), "each row at its turn, until it is begun again"
        left = ended.n_started - len(ids)
        assert 0 <= left <= (self.plan.age + 1) * PROMPTS, "what is missing ran at the end"
        ages = [
            told.batch.step - group.oldest_version for told in self.told if told.batch for group in told.batch.groups
        ]
        assert max(ages) <= self.plan.age or self.plan.policy == "accept_late"


@pytest.mark.parametrize(("age", "in_flight"), few(itertools.product([0, 2], [True, False]), [(0, False), (2, True)]))
def test_killed_at_any_point_it_ends_with_the_same_counters(quick: Path, age: int, in_flight: bool) -> None:
    whole = part(ResumePlan(quick / "whole", age, in_flight))
    points = len(whole.world.events)
    assert points > 50
    for point in range(1, points + 1):
        history = RunHistory(ResumePlan(quick / str(point), age, in_flight))
        killed = history.go(kill_at=point, resume=False)
        over = [*killed.world.of("end"), *killed.world.of("cancel")]
        assert set(killed.world.of("begin")) >= set(over)
        resumed = history.go()
        history.check(resumed.ended)
        assert _counters(resumed.ended) == _counters(whole.ended), f"killed at {killed.world.events[-1]}"
        assert resumed.policy.steps == STEPS


def _id(place: Group | LostGroup) -> int:
    return place.id


def _counters(ended: RunResult | None) -> tuple[int, int, int, dict[str, int]]:
    assert ended is not None
    return ended.steps, ended.n_started, ended.n_trained, ended.lost


@given(
    kills=st.lists(st.integers(1, 90), max_size=4),
    age=st.integers(0, 3),
    in_flight=st.booleans(),
    policy=st.sampled_from(["target_step", "accept_late", "cancel"]),
    failed=st.sampled_from(["infra", "cancelled"]),
    save_s=st.sampled_from([0.0, 0.5, 5.0]),
)
@example(kills=[55], age=1, in_flight=False, policy="accept_late", failed="infra", save_s=5.0)
@settings(max_examples=25, deadline=None)
def test_killed_again_and_again_nothing_is_lost_or_doubled(
    kills: Sequence[int], age: int, in_flight: bool, policy: AgePolicyName, failed: Outcome, save_s: float
) -> None:
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        plan = ResumePlan(
            Path(folder), age, in_flight, save_period=1, failed=failed, slow=True, policy=policy, save_s=save_s
        )
        history = RunHistory(plan)
        for kill in kills:
            history.go(kill_at=kill)
        history.check(history.go().ended)


def test_what_ran_begins_again_under_its_id_and_what_waited_is_not_run_again(quick: Path) -> None:
    history = RunHistory(ResumePlan(quick))
    killed = history.go(kill_at=45, resume=False)
    newest = history.plan.checkpoints.newest()
    assert newest is not None
    books, waiting = newest.read()
    resumed = history.go()
    assert resumed.world.of("restore") == [0]
    assert resumed.rollouts.restored == newest.rollouts
    assert resumed.world.of("sent")[0] == newest.step
    running = [each["id"] for each in books["ledger"]["running"]]
    assert resumed.world.of("begin")[: len(running)] == running
    assert waiting
    assert not {group.id for group in waiting} & set(resumed.world.of("begin"))
    assert {group.id for group in waiting} <= set(killed.world.of("end"))


def test_without_a_checkpoint_a_resumed_run_begins_at_the_start(quick: Path) -> None:
    history = RunHistory(ResumePlan(quick, save_period=100))
    history.go(kill_at=30, resume=False)
    resumed = history.go()
    history.check(resumed.ended)
    assert not resumed.world.of("load")
    assert not resumed.world.of("restore")


@pytest.mark.parametrize("save_s", [1.5, 30.0])
def test_steps_go_on_while_a_checkpoint_is_written_which_counts_when_it_is_whole(quick: Path, save_s: float) -> None:
    one = part(ResumePlan(quick / "whole", save_period=2, save_s=save_s))
    order = [(event.what, event.of) for event in one.world.events]
    assert order.index(("save", 2)) < order.index(("trained", 2)) < order.index(("saved", 2))
    assert order.index(("saved", 2)) < order.index(("save", 4)), "one at a time"
    assert one.ended is not None
    assert one.ended.checkpoint == quick / "whole" / "step_5", "the end waits for the last"
    assert [stored.step for stored in ResumePlan(quick / "whole").checkpoints.all()] == [2, 4, 5]
    for point, event in enumerate(one.world.events, 1):
        if ("save", 4) in order[:point] and ("saved", 4) not in order[:point]:
            plan = ResumePlan(quick / str(point), save_period=2, save_s=save_s)
            part(plan, kill_at=point)
            newest = plan.checkpoints.newest()
            assert newest is not None
            assert newest.step == 2, event
            again = part(plan, resume=True)
            assert again.world.of("trained") == [2, 3, 4]


def test_a_checkpoint_that_waits_for_the_one_before_has_the_groups_that_ended_meanwhile(quick: Path) -> None:
    plan = ResumePlan(quick, age=2, save_period=2, save_s=30.0, keep_top_k=9)
    events = part(plan).world.events
    for stored in plan.checkpoints.all():
        saved = next(nth for nth, event in enumerate(events) if event[1:] == ("save", stored.step))
        ended = {event.of for event in events[:saved] if event.what == "end" and event.at_s < events[saved].at_s}
        running = {group["id"] for group in stored.read().fields["ledger"]["running"]}
        assert not running & ended, stored.step


@pytest.mark.parametrize(("save_period", "trained"), [(2, 2), (5, 5), (100, 5)])
def test_a_checkpoint_that_is_not_written_ends_the_run_by_its_name(quick: Path, save_period: int, trained: int) -> None:
    plan = ResumePlan(quick, save_period=save_period, save_s=0.5)
    world = ScriptedRun()
    policy = ScriptedPolicy(world, save_s=plan.save_s)

    def fill_the_disk(what: str, of: int) -> None:
        if what == "saved":
            raise InfraError("step: can't be written: no space left on device", kind="disk", retryable=False)

    world.on_event = fill_the_disk

    async def main() -> RunResult:
        return await Loop(plan.settings, ScriptedRollouts(world), policy, lambda told: None, plan.checkpoints).run()

    why = r"can't be written: no space left .*\(no checkpoint was stored yet\)"
    with pytest.raises(InfraError, match=why) as raised:
        virtually(main())
    assert (raised.value.kind, raised.value.stage) == ("disk", "save")
    assert policy.steps in (trained, trained + 1)
    assert plan.checkpoints.newest() is None


def test_a_run_that_has_ended_is_not_done_again_and_may_be_prolonged(quick: Path) -> None:
    part(ResumePlan(quick))
    again = part(ResumePlan(quick), resume=True)
    assert again.ended is not None
    assert (again.ended.steps, again.told, again.world.of("begin")) == (STEPS, [], [])
    longer = part(ResumePlan(quick, steps=STEPS + 2), resume=True)
    assert [told.steps for told in longer.told] == [STEPS + 1, STEPS + 2]


def test_the_last_step_is_always_stored(quick: Path) -> None:
    one = part(ResumePlan(quick, save_period=2))
    assert [stored.step for stored in Checkpoints(quick).all()] == [2, 4, 5]
    assert one.ended is not None
    assert one.ended.checkpoint == quick / "step_5"


def test_what_a_checkpoint_has_was_told_before(quick: Path) -> None:
    one = part(ResumePlan(quick, save_period=1))
    order = [(event.what, event.of) for event in one.world.events if event.what in ("sent", "save")]
    assert order == [("sent", 0), *((what, step) for step in range(1, STEPS + 1) for what in ("sent", "save"))]
    for point, event in enumerate(one.world.events, 1):
        if event.what == "save":
            killed = part(ResumePlan(quick / str(point), save_period=1), kill_at=point)
            assert killed.told[-1].steps == event.of


@pytest.mark.parametrize(
    ("metric", "validations", "kept", "best"),
    [("validation/accuracy", {2: 0.9, 4: 0.5}, [2, 5], 2), ("train/loss", {}, [1, 5], 1), (None, {}, [5], 5)],
)
def test_the_best_is_kept_and_exported(
    quick: Path, metric: str | None, validations: dict[int, float], kept: list[int], best: int
) -> None:
    folder, export = quick / "checkpoints", quick / "export"
    plan = ResumePlan(folder, save_period=1, metric=metric, keep_top_k=1, validations=validations, export=export)
    ended = part(plan).ended
    assert ended is not None
    assert [stored.step for stored in plan.checkpoints.all()] == kept
    assert ended.best == folder / f"step_{best}"
    assert ended.exported == best
    assert (export / "weights").read_text() == str(best)


def test_a_metric_that_is_not_there_is_told(quick: Path, caplog: pytest.LogCaptureFixture) -> None:
    part(ResumePlan(quick, save_period=1, metric="train/rewrad"))
    assert "checkpointing.metric_name: step 1 has no train/rewrad; nearest: train/" in caplog.text


def test_a_run_that_has_to_save_by_then_saves_and_ends(quick: Path) -> None:
    history = RunHistory(ResumePlan(quick, save_period=100, must_save_by_s=3.5))
    first = history.go(resume=False)
    assert first.ended is not None
    assert (first.ended.why, 0 < first.ended.steps < STEPS) == ("time", True)
    assert first.world.events[-1].at_s == pytest.approx(3.5, abs=1.0)
    newest = history.plan.checkpoints.newest()
    assert newest is not None
    assert newest.step == first.ended.steps
    history.check(history.go().ended)


def test_an_error_says_from_where_to_go_on(quick: Path) -> None:
    plan = ResumePlan(quick)
    world = ScriptedRun()
    policy = ScriptedPolicy(world)

    def die(what: str, of: int) -> None:
        if (what, of) == ("train", 3):
            raise RuntimeError("the actor died")

    world.on_event = die

    async def main() -> RunResult:
        return await Loop(plan.settings, ScriptedRollouts(world), policy, lambda told: None, plan.checkpoints).run()

    with pytest.raises(InfraError) as raised:
        virtually(main())
    assert raised.value.message == (
        f"the policy failed in train: RuntimeError: the actor died (`--resume` goes on from {quick / 'step_2'})"
    )


def test_another_dataset_is_refused(quick: Path) -> None:
    part(ResumePlan(quick))
    with pytest.raises(ConfigError, match=r"over 7 rows, the dataset has 8: .* or begin a new run$"):
        part(ResumePlan(quick, n_rows=8), resume=True)


def test_failures_in_a_row_are_counted_over_a_kill(quick: Path) -> None:
    history = RunHistory(ResumePlan(quick, save_period=1, failed="infra"))
    history.go(kill_at=40, resume=False)
    newest = history.plan.checkpoints.newest()
    assert newest is not None
    state = newest.read()
    assert set(state.fields) == {"ledger", "failures_in_a_row", "validation"}
    old_names = {new: old for old, new in OLD_NAMES.items()}
    stored = {
        **state.fields,
        "ledger": {old_names.get(name, name): value for name, value in state.fields["ledger"].items()},
    }
    (newest.folder / LOOP).write_bytes(
        orjson.dumps({old_names.get(name, name): value for name, value in stored.items()})
    )
    assert as_lists(newest.read()) == as_lists(state)
