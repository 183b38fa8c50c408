"""Claims about groups: every comparison counts, whoever comes when and how often; what was told stays."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import RowError, VerifierError
from paddock.http import Call
from paddock.resources_servers.genrm.compare import COMPARE, CompareRequest
from paddock.testing import TRANSPORTS, Transport
from paddock.types import Verdict
from paddock.types.responses import make_response, message_item

if TYPE_CHECKING:
    from tests.resources_servers.genrm.conftest import GenrmStage

    StageOf = Callable[..., AbstractAsyncContextManager[GenrmStage]]


def ring(texts: list[str]) -> list[tuple[str, str]]:
    return sorted(zip(texts, [*texts[1:], texts[0]], strict=True))


async def alone(stage: "GenrmStage", texts: list[str]) -> list[float]:
    """Rewards of the texts without a group."""
    history = [{"role": "user", "content": "Say something."}]
    responses = [make_response([message_item(text)], {}, model="policy") for text in texts]
    request = CompareRequest(conversation_history=history, response_objs=responses)
    return list((await stage.peers[0].call(COMPARE, request, Call())).rewards)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_of_16_at_once_all_16_comparisons_are_used(stage_of: "StageOf", transport: Transport) -> None:
    texts = [f"answer {nth}" for nth in range(16)]
    async with stage_of(transport=transport, judge={"delay_s": 0.01, "delay_spread_s": 0.05}) as stage:
        verdicts = await stage.group(texts)
        assert sorted(stage.judge.asked) == ring(texts)
        assert [verdict.reward for verdict in verdicts] == await alone(stage, texts)
    assert {verdict.reason for verdict in verdicts} == {"scored"}
    for member, verdict in enumerate(verdicts):
        record = verdict.extras["genrm"]
        assert len(record["comparisons"]) == 16 and record["member"] == member
        assert verdict.metrics["comparisons"] == 2.0
    assert all(
        verdict.extras["genrm"]["comparisons"] == verdicts[0].extras["genrm"]["comparisons"] for verdict in verdicts
    )


STRATEGIES = st.sampled_from(["circular", "all_pairs", "uncertain"])


@pytest.mark.slow
@given(size=st.integers(2, 5), seed=st.integers(0, 2**32), strategy=STRATEGIES, swap=st.booleans())
@settings(max_examples=15)
def test_any_order_of_arrivals_duplicates_and_retries_gives_the_same_rewards(
    stage_of: "StageOf", size: int, seed: int, strategy: str, swap: bool
) -> None:
    """Each member comes one to three times, to one of two servers, some of them also with a response that a retry
    replaces, and once more when the group is settled."""

    async def played() -> None:
        draw = Random(seed)
        config = {"comparison_strategy": strategy, "position_swap": swap, "num_judges_per_comparison": 2}
        async with stage_of(judge={"delay_spread_s": 0.003}, servers=draw.choice([1, 2]), **config) as stage:
            texts = [f"{nth}" for nth in range(size)]
            others = [asyncio.create_task(_member(stage, draw, nth, size)) for nth in range(1, size)]
            replaced = [asyncio.create_task(_replaced(stage, draw, nth, size)) for nth in range(1, size)]
            await asyncio.gather(*replaced)
            done = [await _member(stage, draw, 0, size), *(await asyncio.gather(*others))]
            expected = await alone(stage, texts)
            late = [await stage.verify(nth, texts[nth], size=size, attempt=1) for nth in range(size)]
        for nth, verdicts in enumerate([*done, *([one] for one in late)]):
            for verdict in verdicts:
                assert verdict.reward == pytest.approx(expected[nth % size], abs=1e-12)
                assert verdict.reason == "scored"

    asyncio.run(played())


async def _member(stage: "GenrmStage", draw: Random, nth: int, size: int) -> list[Verdict]:
    """Verdicts of all copies of its response."""

    async def copy(wait_s: float, server: int) -> Verdict:
        await asyncio.sleep(wait_s)
        return await stage.verify(nth, f"{nth}", size=size, attempt=1, at=server)

    copies = [copy(draw.random() * 0.01, draw.randrange(len(stage.peers))) for _ in range(draw.randint(1, 3))]
    return list(await asyncio.gather(*copies))


async def _replaced(stage: "GenrmStage", draw: Random, nth: int, size: int) -> None:
    """Perhaps an earlier attempt, before or after the one that counts."""
    if draw.random() < 0.4:
        await asyncio.sleep(draw.random() * 0.01)
        with pytest.raises(VerifierError) as failed:
            await stage.verify(nth, f"first try of {nth}", size=size, attempt=0, at=draw.randrange(len(stage.peers)))
        assert (failed.value.kind, failed.value.retryable) == ("superseded", False)


async def test_a_comparison_is_asked_as_soon_as_both_are_there(stage_of: "StageOf") -> None:
    async with stage_of() as stage:
        waiting = [asyncio.create_task(stage.verify(member, f"{member}")) for member in (2, 1)]
        await stage.until(lambda: stage.judge.requests == 1)
        assert stage.judge.asked == [("1", "2")]
        waiting += [asyncio.create_task(stage.verify(member, f"{member}")) for member in (0, 3)]
        await asyncio.gather(*waiting)
        assert sorted(stage.judge.asked) == ring(["0", "1", "2", "3"])


async def test_groups_of_other_sizes_runs_epochs_and_cohorts_do_not_meet(stage_of: "StageOf") -> None:
    async with stage_of() as stage:
        several: list[dict[str, Any]] = [
            {"group_id": 0, "epoch": 1},
            {"group_id": 0, "epoch": 2},
            {"group_id": 0, "epoch": 2, "cohort": "again"},
            {"group_id": 0, "epoch": 1, "run_id": "another"},
            {"group_id": 1, "epoch": 1},
        ]
        large = [stage.group([f"{nth} of {one}" for nth in range(4)], **one) for one in several]
        small = stage.group(["left", "right"], group_id=0, epoch=1)
        *four, two = await asyncio.gather(*large, small)
    assert all(len(verdict.extras["genrm"]["comparisons"]) == 4 for group in four for verdict in group)
    assert [len(verdict.extras["genrm"]["comparisons"]) for verdict in two] == [2, 2]


async def test_a_group_of_one_is_not_judged(stage_of: "StageOf") -> None:
    async with stage_of(default_score=2.5) as stage:
        (verdict,) = await stage.group(["alone"])
        assert (verdict.reward, verdict.reason, stage.judge.requests) == (2.5, "single", 0)


@pytest.mark.parametrize("size", [-3, 0, 4097, 10**9])
async def test_a_group_size_out_of_bounds_is_refused_at_once(stage_of: "StageOf", size: int) -> None:
    async with stage_of(transport="http") as stage:
        for member in (0, None):
            with pytest.raises(RowError, match=rf"_paddock_group_size: {size}; a group has 1 to 4096 members"):
                await stage.verify(member, "x", size=size)
        assert stage.judge.requests == 0


async def test_strategies_whose_work_grows_faster_have_smaller_groups(stage_of: "StageOf") -> None:
    for limit, config in ((256, {"comparison_strategy": "all_pairs"}), (128, {"comparison_strategy": "uncertain"})):
        async with stage_of(**config) as stage:
            with pytest.raises(RowError, match=f"1 to {limit} members"):
                await stage.verify(0, "x", size=limit + 1)
    with pytest.raises(ValueError, match="1 to 256 members"):
        async with stage_of(aggregator_method="bradley_terry", num_rollouts_per_prompt=257):
            pass


async def test_a_large_group_that_waits_is_in_nobodys_way(stage_of: "StageOf") -> None:
    async with stage_of(transport="http") as stage:
        waiting = [asyncio.create_task(stage.verify(nth, f"{nth}", size=4096, group_id=9)) for nth in (0, 1, 4095)]
        await stage.until(lambda: stage.judge.requests == 2)
        assert {verdict.reason for verdict in await stage.group(["a", "b"])} == {"scored"}
        assert sorted(stage.judge.asked[:2]) == [("0", "1"), ("4095", "0")]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_member_that_its_group_does_not_have_is_the_rows_fault(stage_of: "StageOf") -> None:
    async with stage_of() as stage:
        with pytest.raises(RowError, match="needs 0 to 3"):
            await stage.verify(4, "one too many")


async def test_a_late_response_is_judged_against_the_group_and_changes_nothing(stage_of: "StageOf") -> None:
    async with stage_of() as stage:
        before = await stage.group(["a", "b", "c", "d"])
        late = await stage.verify(1, "B", attempt=1)
        assert late.reason == "scored_late"
        assert sorted(stage.judge.asked[4:]) == [("B", "c"), ("a", "B")]
        assert late.reward == pytest.approx((await alone(stage, ["a", "B", "c", "d"]))[1], abs=1e-12)
        asked = stage.judge.requests
        assert await stage.verify(1, "B", attempt=1) == late
        assert [await stage.verify(nth, text) for nth, text in enumerate("abcd") if nth != 1] == before[:1] + before[2:]
        assert stage.judge.requests == asked
        with pytest.raises(VerifierError) as failed:
            await stage.verify(1, "never seen")
        assert failed.value.kind == "superseded"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_rows_without_a_number_are_told_apart_by_their_requests(
    stage_of: "StageOf", transport: Transport
) -> None:
    async with stage_of(transport=transport, num_rollouts_per_prompt=3) as stage:
        for nth, texts in enumerate((["a", "b", "c"], ["d", "e", "f"])):
            calls = [Call(), Call(), Call()]
            twice = [
                stage.verify(None, text, bare=True, group_id=7, call=call)
                for text, call in [*zip(texts, calls, strict=True), (texts[0], calls[0])]
            ]
            *verdicts, again = await asyncio.gather(*twice)
            assert again == verdicts[0]
            assert sorted(verdict.extras["genrm"]["member"] for verdict in verdicts) == [0, 1, 2]
            assert stage.judge.requests == 3 * (nth + 1)


async def test_equal_answers_of_rows_without_a_number_are_members_each(stage_of: "StageOf") -> None:
    named: list[dict[str, Any]] = [{"group_id": 7}, {"task": {"prompt_id": "p"}}]
    for name in named:
        async with stage_of(num_rollouts_per_prompt=4) as stage:
            verdicts = await asyncio.gather(*(stage.verify(None, "same", bare=True, **name) for _ in range(4)))
            assert [verdict.reason for verdict in verdicts] == ["scored"] * 4
            assert sorted(verdict.extras["genrm"]["member"] for verdict in verdicts) == [0, 1, 2, 3]
            assert len({verdict.reward for verdict in verdicts}) == 1


async def test_one_more_than_a_group_has_begins_the_next(stage_of: "StageOf") -> None:
    async with stage_of(group_timeout_s=0.6) as stage:
        five = [stage.verify(None, f"{nth}", bare=True, group_size=4, group_id=7) for nth in range(5)]
        *scored, alone = await asyncio.gather(*five, return_exceptions=True)
        assert [verdict.reason for verdict in scored if isinstance(verdict, Verdict)] == ["scored"] * 4
        assert isinstance(alone, VerifierError) and alone.kind == "group_incomplete"


@pytest.mark.parametrize("strategy", ["circular", "all_pairs", "uncertain"])
async def test_several_judges_take_turns_from_pair_to_pair(stage_of: "StageOf", strategy: str) -> None:
    texts = ["a" * 10, "b" * 20, "c" * 30, "d" * 40]
    for swap in (False, True):
        async with stage_of(others=[{"prefers": "shorter"}], comparison_strategy=strategy, position_swap=swap) as stage:
            verdicts = await stage.group(texts)
            first, second = (set(map(frozenset, judge.asked)) for judge in stage.judges)
            assert first and second and first.isdisjoint(second), "both orders of a pair are one judge's"
            assert {text for pair in first for text in pair} == {text for pair in second for text in pair} == set(texts)
            assert [verdict.reward for verdict in verdicts] == await alone(stage, texts)


async def test_numbered_rows_without_a_run_come_in_rounds(stage_of: "StageOf") -> None:
    async with stage_of(num_rollouts_per_prompt=2) as stage:
        for texts in (["a", "b"], ["c", "d"]):
            both = [stage.verify(nth, text, bare=True, group_id=7) for nth, text in enumerate(texts)]
            assert {verdict.reason for verdict in await asyncio.gather(*both)} == {"scored"}
        assert (await stage.verify(0, "e", bare=True, group_id=7, attempt=1)).reason == "scored_late"
        assert stage.judge.asked[-2:] in ([("e", "d"), ("d", "e")], [("d", "e"), ("e", "d")])


async def test_one_who_goes_leaves_its_response_and_work_waits_for_who_comes_back(stage_of: "StageOf") -> None:
    async with stage_of(judge={"hang_needle": "slow"}, servers=2) as stage:
        waiting = [asyncio.create_task(stage.verify(nth, text, size=2)) for nth, text in enumerate(["slow", "fast"])]
        await stage.until(lambda: stage.judge.in_flight == 2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await stage.until(lambda: stage.judge.in_flight == 0)
        assert stage.judge.requests == 2, "nobody waits, so nothing is asked"
        back = asyncio.create_task(stage.verify(1, "fast", size=2, at=1))
        await stage.until(lambda: stage.judge.requests == 4)
        assert sorted(stage.judge.asked[2:]) == [("fast", "slow"), ("slow", "fast")]
        back.cancel()
        await asyncio.gather(back, return_exceptions=True)


async def test_two_servers_share_a_group_and_each_comparison_is_asked_once(stage_of: "StageOf") -> None:
    texts = [f"answer {nth}" for nth in range(8)]
    async with stage_of(servers=2, transport="http", judge={"delay_spread_s": 0.05}) as stage:
        members = [stage.verify(nth, text, size=8, at=nth % 2) for nth, text in enumerate(texts)]
        verdicts = await asyncio.gather(*members)
        assert sorted(stage.judge.asked) == ring(texts)
        assert [verdict.reward for verdict in verdicts] == await alone(stage, texts)


async def test_what_a_server_that_ended_was_asking_is_asked_by_another(stage_of: "StageOf") -> None:
    async with stage_of(servers=2, judge={"delay_s": 0.2}) as stage:
        on_first = [asyncio.create_task(stage.verify(nth, f"{nth}")) for nth in range(3)]
        await stage.until(lambda: stage.judge.in_flight == 2)
        on_second = asyncio.create_task(stage.verify(3, "3", at=1))
        await stage.until(lambda: stage.judge.in_flight == 4)
        await stage.servers[0].stop()
        ended = await asyncio.gather(*on_first, return_exceptions=True)
        assert {error.kind for error in ended if isinstance(error, VerifierError)} == {"stopped"}
        assert (await on_second).reason == "scored"
