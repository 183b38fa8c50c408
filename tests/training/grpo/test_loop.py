"""Claims about the loop: who waits for whom, how old what is trained on may be, and what happens when things fail."""

import pytest
from tests.training.grpo.scripted_loop import PROMPTS, STEPS, LoopRun, settings, slow

from paddock.errors import InfraError, PaddockError
from paddock.training.core.records import Batch
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import StepReport
from paddock.training.grpo.roles import GroupJob, TrainResult
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRun, now, virtually
from paddock.types import Outcome


def test_each_step_is_trained_sent_and_told_in_order() -> None:
    one = LoopRun(settings())
    ended = one.run()
    assert (ended.why, ended.steps, ended.n_trained, ended.lost) == (
        "steps",
        STEPS,
        STEPS * PROMPTS,
        {"slow": 0, "too_old": 0, "dropped": 0, "no_advantage": 0},
    )
    assert one.world.of("train") == list(range(STEPS))
    assert one.world.of("sent") == list(range(STEPS + 1)), "the first weights too"
    assert [told.steps for told in one.told] == list(range(1, STEPS + 1))
    assert [told.batch for told in one.told] == one.policy.batches
    order = [event.what for event in one.world.events if event.what in ("train", "sent")]
    assert order == ["sent", *["train", "sent"] * STEPS]


def test_groups_are_trained_on_once_and_in_the_order_of_rows() -> None:
    one = LoopRun(settings(n_rows=7, max_num_epochs=2, seed=5))
    one.run()
    flat = [group for batch in one.policy.batches for group in batch.groups]
    assert [group.id for group in flat] == list(range(STEPS * PROMPTS))
    assert sorted(group.row for group in flat[:7]) == list(range(7))
    assert [group.epoch for group in flat] == [0] * 7 + [1] * 5


def test_what_runs_at_the_end_is_cancelled_and_has_ended() -> None:
    one = LoopRun(settings(2), seconds=slow(set(range(8, 99)), 50.0))
    ended = one.run()
    begun, over = one.world.of("begin"), [*one.world.of("end"), *one.world.of("cancel")]
    assert len(begun) == len(set(begun)) == ended.n_started
    assert sorted(begun) == sorted(over)
    assert ended.n_started <= (STEPS - 1 + 2 + 1) * PROMPTS + ended.lost["slow"]


@pytest.mark.parametrize("in_flight", [True, False])
@pytest.mark.parametrize("age", [0, 1, 2, 4])
def test_nothing_is_older_than_it_may_be(age: int, in_flight: bool) -> None:
    lengths = [1.0, 7.0, 0.5, 2.5, 12.0, 0.1, 3.0]
    one = LoopRun(settings(age, in_flight=in_flight), seconds=lambda work: lengths[work.id % 7], turns=3)
    ended = one.run()
    assert ended.steps == STEPS
    assert max(one.ages()) <= age
    assert all(told.metrics["train/staleness/max"] <= age for told in one.told)
    assert age < 2 or max(one.ages()) > 0, "asynchronous indeed"
    trained = [group for groups in one.groups() for group in groups]
    assert len(trained) == len(set(trained)) == STEPS * PROMPTS


def test_with_age_0_each_step_has_its_own_weights_samples() -> None:
    one = LoopRun(settings(0))
    one.run()
    assert set(one.ages()) == {0}
    assert one.groups() == [[2 * step, 2 * step + 1] for step in range(STEPS)]
    for step in range(STEPS):
        began = [one.world.at("begin", group) for group in (2 * step, 2 * step + 1)]
        assert min(began) >= one.world.at("sent", step)
        assert max(one.world.at("end", group) for group in (2 * step, 2 * step + 1)) <= one.world.at("train", step)


def test_synchronous_is_age_0() -> None:
    given = settings(3)
    off = given.grpo.async_grpo.model_copy(update={"enabled": False})
    one = LoopRun(given._replace(grpo=given.grpo.model_copy(update={"async_grpo": off})))
    one.run()
    assert set(one.ages()) == {0}


def test_the_policy_trains_while_groups_run() -> None:
    one = LoopRun(settings(1), seconds=lambda work: 1.0)
    ended = one.run()
    assert one.world.events[-1].at_s == pytest.approx(1 + STEPS), (
        "groups take as long as steps: all but the first overlap"
    )
    assert ended.wait_share == pytest.approx(1 / (1 + STEPS))
    behind = LoopRun(settings(0), seconds=lambda work: 1.0)
    assert behind.run().wait_share == pytest.approx(0.5)


class RecreditingPolicy(ScriptedPolicy):
    """A policy that makes advantages of its own."""

    async def train(self, batch: Batch) -> TrainResult:
        trained = await super().train(batch)
        return trained._replace(metrics={**trained.metrics, "train/advantages/max": 7.0})


def test_advantages_that_the_policy_makes_are_those_that_are_reported() -> None:
    one = LoopRun(settings(0), policy=RecreditingPolicy)
    one.run()
    assert {report.metrics["train/advantages/max"] for report in one.told if report.batch} == {7.0}


def test_times_are_told() -> None:
    one = LoopRun(
        settings(0, val_period=1),
        policy=lambda world: ScriptedPolicy(world, train_s=3.0, send_s=0.5),
        validate_s=2.0,
        validations={1: 0.5},
    )
    one.run()
    first = one.told[0].metrics
    assert (first["timing/wait_s"], first["timing/train_s"], first["timing/send_s"]) == (1.0, 3.0, 0.5)
    assert (first["timing/validate_s"], first["timing/step_s"]) == (2.0, 6.5)
    assert first["timing/wait_share"] == pytest.approx(1 / 4.5)
    assert first["timing/tokens_per_s"] == pytest.approx(8 / 6.5)
    assert first["timing/engines_paused_s"] == 0.5
    assert first["validation/accuracy"] == 0.5
    assert first["train/total_reward/mean"] == 0.5
    assert first["train/loss"] == 1.0
    assert first["buffer/started"] == 4


def test_in_flight_weights_reach_groups_that_run() -> None:
    one = LoopRun(settings(2), seconds=lambda work: 1.5 + 0.2 * work.id % 1, turns=6)
    one.run()
    assert any(row.oldest != row.newest for batch in one.policy.batches for row in batch.rows)
    crossed = [
        group
        for group in one.world.of("end")
        for version in range(1, STEPS)
        if one.world.at("begin", group) < one.world.at("sent", version) < one.world.at("end", group)
    ]
    assert crossed


def test_waiting_weights_are_sent_when_nothing_runs() -> None:
    one = LoopRun(settings(2, in_flight=False), seconds=lambda work: 1.5 + work.id % 3, turns=6)
    one.run()
    assert all(row.oldest == row.newest for batch in one.policy.batches for row in batch.rows)
    for version in range(1, STEPS + 1):
        sending, sent = one.world.at("send", version), one.world.at("sent", version)
        trained = one.world.at("trained", version - 1)
        for group in {*one.world.of("end")}:
            began, ended = one.world.at("begin", group), one.world.at("end", group)
            assert ended <= sending or began >= sent
            assert not trained < began < sent
    assert any(told.metrics["timing/drain_s"] > 0 for told in one.told)


@pytest.mark.parametrize(
    ("in_flight", "recompute", "kept"), [(True, True, False), (True, False, True), (False, False, False)]
)
def test_caches_are_kept_where_the_config_says(in_flight: bool, recompute: bool, kept: bool) -> None:
    one = LoopRun(settings(in_flight=in_flight, recompute=recompute))
    one.run()
    assert set(one.policy.kept_caches) == {kept}


def every_fifth(work: GroupJob, nth: int) -> Outcome | None:
    place = work.id * 4 + nth
    return None if place % 5 else ("infra", "verifier")[place % 2]


def test_failed_members_are_masked_and_their_groups_trained_on() -> None:
    one = LoopRun(settings(), failed=every_fifth, size=4)
    ended = one.run()
    assert ended.lost["dropped"] == 0
    failed = [
        (group.id, member.nth)
        for batch in one.policy.batches
        for group in batch.groups
        for member in group.members
        if member.reward is None
    ]
    assert len(failed) == pytest.approx(STEPS * PROMPTS * 4 / 5, abs=1)
    masked = {(each.group, each.member) for batch in one.policy.batches for each in batch.masked}
    assert masked == set(failed)
    assert not masked & {(row.group, row.member) for batch in one.policy.batches for row in batch.rows}


def test_groups_with_too_few_verdicts_are_replaced_by_the_next_rows() -> None:
    one = LoopRun(settings(failures=1), failed=lambda work, nth: "infra" if work.id % 3 == 0 else None)
    ended = one.run()
    assert ended.steps == STEPS
    trained = [group for groups in one.groups() for group in groups]
    assert trained == [group for group in range(18) if group % 3]
    lost = [lost for told in one.told for lost in told.lost]
    assert {each.why for each in lost} == {"dropped"}
    assert all(each.id % 3 == 0 for each in lost)
    assert ended.n_started == len(set(one.world.of("begin")))
    assert ended.lost["dropped"] == len([group for group in one.world.of("end") if group % 3 == 0])


@pytest.mark.parametrize(("borne", "ends"), [(0, True), (1, True), (2, False)])
def test_groups_without_any_verdict_are_borne_so_many_in_a_row(borne: int, ends: bool) -> None:
    one = LoopRun(settings(failures=borne), failed=lambda work, nth: "verifier" if work.id in (4, 5) else None)
    if not ends:
        assert one.run().steps == STEPS
        return
    with pytest.raises(InfraError, match=r"in a row ended without any verdict \(the last: verifier\)") as raised:
        one.run()
    assert raised.value.kind == "generation_failures"
    assert "no checkpoint was stored yet" in raised.value.message
    assert sorted(one.world.of("begin")) == sorted([*one.world.of("end"), *one.world.of("cancel")])


@pytest.mark.parametrize("outcome", ["row", "leak"])
def test_wrong_rows_and_leaks_are_no_failure_to_sample(outcome: Outcome) -> None:
    one = LoopRun(settings(), failed=lambda work, nth: outcome if work.row % 3 == 0 else None)
    ended = one.run()
    assert ended.steps == STEPS
    assert ended.lost["dropped"] > 1
    assert not {group.row for batch in one.policy.batches for group in batch.groups if group.row % 3 == 0}


def test_rows_that_are_all_wrong_end_the_run() -> None:
    one = LoopRun(settings(n_rows=5, max_num_epochs=1000), failed=lambda work, nth: "row")
    with pytest.raises(InfraError, match=r"6 groups in a row .*: row\); the dataset has 5 rows"):
        one.run()
    assert len(one.world.of("begin")) < 5 + 2 * PROMPTS + 2


def test_an_engine_that_was_started_anew_is_masked_and_gets_its_weights_again() -> None:
    world = ScriptedRun(engines=2)
    one = LoopRun(settings(1)._replace(poll_s=3.0), world, seconds=lambda work: 1.0)

    def restart(what: str, of: int) -> None:
        if (what, of) == ("train", 2):
            world.engines[1].restart()

    world.on_event = restart
    one.run()
    masked = [(batch.step, each.reason) for batch in one.policy.batches for each in batch.masked]
    assert {reason for _, reason in masked} == {"unknown_weights"}
    assert {step for step, _ in masked} == {3}
    assert world.engines[1].version == str(STEPS)


def test_an_engine_that_was_started_anew_gets_weights_while_the_policy_waits() -> None:
    world = ScriptedRun(engines=2)
    one = LoopRun(settings(0)._replace(poll_s=3.0), world, seconds=slow({2}, 100.0))

    def restart(what: str, of: int) -> None:
        if (what, of) == ("begin", 3):
            world.engines[1].restart()

    world.on_event = restart
    one.run()
    assert world.of("sent")[:3] == [0, 1, 1]
    again = [event.at_s for event in world.events if event.what == "sent"][2]
    assert again <= world.at("begin", 3) + 3.0


def test_an_engine_that_was_started_anew_gets_weights_while_a_validation_runs() -> None:
    world = ScriptedRun(engines=2)
    one = LoopRun(settings(1, val_period=3)._replace(poll_s=3.0), world, validate_s=60.0, validations={3: 0.5})

    def restart(what: str, of: int) -> None:
        if (what, of) == ("validate", 3):
            world.engines[1].restart()

    world.on_event = restart
    one.run()
    assert one.told[2].metrics["validation/accuracy"] == 0.5
    again = [event.at_s for event in world.events if event.what == "sent" and event.of == 3]
    assert len(again) == 2
    assert again[1] - world.at("validate", 3) == 3.0


def test_a_sending_that_reaches_nobody_is_tried_again() -> None:
    one = LoopRun(settings())

    def fail(what: str, of: int) -> None:
        if (what, of) == ("train", 1):
            one.policy.refusing["engine-0"] = 5

    one.world.on_event = fail
    one.run()
    assert one.world.of("send") == [0, 1, *[2] * 6, *range(3, STEPS + 1)]


def test_a_sending_that_goes_on_failing_ends_the_run() -> None:
    one = LoopRun(settings()._replace(send_deadline_s=30.0))
    one.policy.refusing["engine-0"] = 10**6
    with pytest.raises(InfraError, match=r"did not take weights 0: engine-0 \(connection reset\)"):
        one.run()


def test_a_worker_that_says_nothing_any_more_is_not_waited_for_for_ever() -> None:
    world = ScriptedRun()
    one = LoopRun(settings()._replace(send_deadline_s=600.0), world, seconds=slow(set(range(4, 99)), 1e9))

    def silent(what: str, of: int) -> None:
        if what == "replicas" and now() > 10.0:
            raise InfraError("no answer", kind="replicas_unknown")

    world.on_event = silent
    with pytest.raises(InfraError, match="no answer"):
        one.run()
    assert 600 <= world.events[-1].at_s < 700


def test_an_engine_that_takes_no_weights_holds_the_others_back_for_a_moment() -> None:
    world = ScriptedRun(engines=2)
    one = LoopRun(settings(2, failures=9), world)

    def refuse(what: str, of: int) -> None:
        if (what, of) == ("train", 0):
            one.policy.refusing["engine-1"] = 10**6

    world.on_event = refuse
    assert one.run().steps == STEPS
    assert max(one.ages()) <= 2
    assert world.engines[1].version == "0"
    assert world.events[-1].at_s < 40


def test_an_engine_that_was_away_while_weights_were_sent_gets_them_when_it_is_back() -> None:
    world = ScriptedRun(engines=2)
    one = LoopRun(settings(0)._replace(poll_s=0.5), world)

    def leave(what: str, of: int) -> None:
        if (what, of) in (("trained", 1), ("begin", 4)):
            world.engines[1].is_well = what == "begin"
        if (what, of) == ("train", 2):
            assert world.engines[1].version == "2"

    world.on_event = leave
    ended = one.run()
    # What it sampled meanwhile is too old for an on-policy step at once, and its place another's.
    assert ended.lost == {"slow": 0, "too_old": 1, "dropped": 0, "no_advantage": 0}
    assert ended.steps == STEPS
    assert set(one.ages()) == {0}


def test_no_engine_at_all_is_waited_for() -> None:
    world = ScriptedRun()
    world.engines[0].is_well = False
    one = LoopRun(settings()._replace(retry_s=10.0), world)

    def well(what: str, of: int) -> None:
        if len(world.of("replicas")) == 5:
            world.engines[0].is_well = True

    world.on_event = well
    assert one.run().steps == STEPS
    assert world.at("send", 0) == 40.0


@pytest.mark.parametrize("what", ["begin", "train", "trained", "send", "replicas", "validate"])
@pytest.mark.parametrize("error", [RuntimeError("the actor died"), InfraError("disk full", retryable=False)])
def test_a_role_that_fails_ends_the_run_in_words_and_all_groups(what: str, error: Exception) -> None:
    one = LoopRun(settings(2, val_period=2))
    begun: list[int] = []

    def die(asked: str, of: int) -> None:
        if asked == what and len(one.world.of(what)) == 2:
            begun[:] = one.world.of("begin")
            raise error

    one.world.on_event = die
    with pytest.raises(PaddockError, match=str(error)):
        one.run()
    over = [*one.world.of("end"), *one.world.of("cancel")]
    failed = {one.world.of("begin")[1]} if what == "begin" else set()
    assert set(one.world.of("begin")) - set(over) == failed


def test_a_bug_is_raised_as_it_is_and_ends_all_groups() -> None:
    one = LoopRun(settings(2))

    def tell(told: StepReport) -> None:
        raise ZeroDivisionError("ours")

    async def main() -> None:
        await Loop(one.settings, one.rollouts, one.policy, tell, clock=now).run()

    with pytest.raises(ZeroDivisionError, match="ours"):
        virtually(main())
    assert sorted(one.world.of("begin")) == sorted([*one.world.of("end"), *one.world.of("cancel")])


def test_a_validation_without_verdicts_is_told_and_nothing_more() -> None:
    one = LoopRun(settings(val_period=2, val_at_start=True, val_at_end=True), validations={0: 0.25, 4: 0.75})
    assert one.run().steps == STEPS
    assert one.world.of("validate") == [0, 2, 4, 6]
    assert [told.metrics.get("validation/accuracy") for told in one.told] == [0.25, None, None, None, 0.75, None, None]
    assert one.told[0].batch is None
    assert one.told[2].metrics["validation/n_verdicts"] == 0


def test_a_run_ends_when_its_rows_are_used_up() -> None:
    one = LoopRun(settings(n_rows=7, val_at_end=True), validations={3: 1.0})
    end = one.run()
    assert (end.why, end.steps, end.n_started, end.n_trained) == ("rows", 3, 7, 6)
    assert (one.told[-1].steps, one.told[-1].batch) == (3, None)
    assert one.told[-1].metrics["validation/accuracy"] == 1.0


def test_a_step_of_which_all_is_masked_is_told_and_trains_nothing() -> None:
    world = ScriptedRun()
    one = LoopRun(settings(0), world)

    def label(what: str, of: int) -> None:
        if what == "begin" and of in (2, 3):
            world.engines[0].version = "somebody's"

    world.on_event = label
    assert one.run().steps == STEPS
    assert one.world.of("train") == [0, 2, 3, 4, 5]
    assert one.told[1].metrics["train/masked/unknown_weights"] > 0
    assert world.of("sent") == list(range(STEPS + 1))
