"""Claims about groups in trouble: members that don't come, judges that fail: never a score, and never for ever."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import VerifierError
from paddock.types import Verdict

if TYPE_CHECKING:
    from tests.resources_servers.genrm.conftest import GenrmStage

    StageOf = Callable[..., AbstractAsyncContextManager[GenrmStage]]

SOON: dict[str, Any] = {"outage_retry_s": 0.02, "comparison_timeout_s": 60.0}
TEXTS = ["a", "b", "c", "d"]


def kinds(results: list[Any]) -> list[tuple[str, bool] | None]:
    """Of errors their kind and whether to try again; None of a verdict."""
    assert all(isinstance(one, Verdict | VerifierError) for one in results), results
    return [(one.kind, one.retryable) if isinstance(one, VerifierError) else None for one in results]


async def outcomes(*members: Any) -> list[Any]:
    return list(await asyncio.gather(*members, return_exceptions=True))


async def test_a_dead_member_score_partial_closes_the_ring_over_those_that_are_there(stage_of: "StageOf") -> None:
    async with stage_of(group_timeout_s=0.3, incomplete_group="score_partial") as stage:
        verdicts = await asyncio.gather(*(stage.verify(nth, TEXTS[nth]) for nth in (0, 1, 3)))
        assert {verdict.reason for verdict in verdicts} == {"scored_partial"}
        assert sorted(stage.judge.asked) == [("a", "b"), ("b", "d"), ("d", "a")]
        late = await stage.verify(2, "c")
        assert late.reason == "scored_late"
        assert sorted(stage.judge.asked[3:]) == [("b", "c"), ("c", "d")]
        assert await stage.verify(0, "a") == verdicts[0]


async def test_one_that_is_left_alone_is_not_scored(stage_of: "StageOf") -> None:
    async with stage_of(group_timeout_s=0.2, incomplete_group="score_partial") as stage:
        assert kinds(await outcomes(stage.verify(0, "a"))) == [("group_incomplete", True)]
        assert stage.judge.requests == 0


async def test_a_dead_member_masks_all_and_retries_begin_the_group_anew(stage_of: "StageOf") -> None:
    async with stage_of(group_timeout_s=0.3, incomplete_group="mask") as stage:
        masked = await outcomes(*(stage.verify(nth, TEXTS[nth]) for nth in (0, 1, 3)))
        assert kinds(masked) == [("group_incomplete", True)] * 3
        assert kinds(await outcomes(stage.verify(0, "a"))) == [("group_incomplete", True)], "the same again: the same"
    async with stage_of(group_timeout_s=0.3, incomplete_group="mask") as stage:
        await outcomes(*(stage.verify(nth, TEXTS[nth]) for nth in (0, 1, 3)))
        again = [stage.verify(nth, f"{TEXTS[nth]} again", attempt=1) for nth in (0, 1, 3)]
        verdicts = await asyncio.gather(stage.verify(2, "c"), *again)
        assert {verdict.reason for verdict in verdicts} == {"scored"}
        assert all(len(verdict.extras["genrm"]["comparisons"]) == 4 for verdict in verdicts)


async def test_wait_waits(stage_of: "StageOf") -> None:
    async with stage_of(group_timeout_s=0.05, incomplete_group="wait") as stage:
        waiting = [asyncio.create_task(stage.verify(nth, TEXTS[nth])) for nth in range(3)]
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in waiting)
        verdicts = await asyncio.gather(stage.verify(3, "d"), *waiting)
        assert {verdict.reason for verdict in verdicts} == {"scored"}


@pytest.mark.parametrize("first", [True, False], ids=["before the others", "after them"])
async def test_a_withdrawn_member_is_not_waited_for(stage_of: "StageOf", first: bool) -> None:
    async with stage_of(servers=2) as stage:
        if first:
            await stage.withdraw(2)
        waiting = [asyncio.create_task(stage.verify(nth, TEXTS[nth])) for nth in (0, 1, 3)]
        if not first:
            await stage.until(lambda: stage.judge.requests > 0)
            await stage.withdraw(2, at=1)
        assert {verdict.reason for verdict in await asyncio.gather(*waiting)} == {"scored_partial"}
        assert (await stage.verify(2, "c", attempt=1)).reason == "scored_late"


async def test_a_withdrawn_member_masks_its_group_for_good(stage_of: "StageOf") -> None:
    async with stage_of(incomplete_group="mask") as stage:
        waiting = [asyncio.create_task(stage.verify(nth, TEXTS[nth])) for nth in (0, 1, 3)]
        await stage.until(lambda: stage.judge.requests > 0)
        await stage.withdraw(2)
        assert kinds(await outcomes(*waiting)) == [("group_incomplete", False)] * 3


async def test_a_failed_comparison_masks_the_two_that_it_touches_and_no_other(stage_of: "StageOf") -> None:
    async with stage_of(genrm_parse_retries=0) as stage:
        stage.judge.breaks = lambda first, second: (first, second) == ("b", "c")
        results = await outcomes(*(stage.verify(nth, text) for nth, text in enumerate(TEXTS)))
        assert kinds(results) == [None, ("judge_unusable", True), ("judge_unusable", True), None]
        told = [results[0], results[3]]
        asked = stage.judge.requests
        assert kinds(await outcomes(stage.verify(1, "b"))) == [("judge_unusable", True)]
        assert stage.judge.asked[asked:] == [("b", "c")], "only what failed is asked again"
        stage.judge.breaks = lambda _first, _second: False
        same, other = await asyncio.gather(stage.verify(1, "b"), stage.verify(2, "C", attempt=1))
        assert (same.reason, other.reason) == ("scored_late", "scored_late")
        assert [await stage.verify(0, "a"), await stage.verify(3, "d")] == told
    async with stage_of() as stage:
        sound = await stage.group(TEXTS)
    assert same.reward == sound[1].reward
    assert [one.reward for one in told] == [sound[0].reward, sound[3].reward]


async def test_a_judge_that_is_down_and_comes_back_costs_time_alone(stage_of: "StageOf") -> None:
    async with stage_of(judge={"fail_first": 9}, **SOON) as stage:
        verdicts = await stage.group(TEXTS)
        assert stage.judge.failed == 9
    async with stage_of() as stage:
        assert [verdict.reward for verdict in await stage.group(TEXTS)] == [verdict.reward for verdict in verdicts]


async def test_a_judge_that_stays_down_gives_no_rewards_and_the_group_begins_anew(stage_of: "StageOf") -> None:
    async with stage_of(judge={"fail_first": 10**6}, outage_retry_s=0.02, comparison_timeout_s=0.2) as stage:
        assert (
            kinds(await outcomes(*(stage.verify(nth, text) for nth, text in enumerate(TEXTS))))
            == [("judge_down", True)] * 4
        )
        stage.judge.config = stage.judge.config.model_copy(update={"fail_first": 0})
        again = [stage.verify(nth, text, attempt=nth % 2) for nth, text in enumerate(TEXTS)]
        assert {verdict.reason for verdict in await asyncio.gather(*again)} == {"scored"}


async def test_unusable_answers_are_asked_for_again_and_never_a_number(stage_of: "StageOf") -> None:
    async with stage_of(judge={"unusable_first": 4}, genrm_parse_retries=2, genrm_parse_retry_sleep_s=0.0) as stage:
        await stage.group(TEXTS)
        tries = sorted(body["metadata"].get("try", "0") for body in stage.judge.seen)
        assert tries == ["0"] * 4 + ["1"] * 4, "each further question can be told from the one before"
    async with stage_of(judge={"unusable_share": 1.0}, genrm_parse_retries=2, genrm_parse_retry_sleep_s=0.0) as stage:
        results = await outcomes(*(stage.verify(nth, text) for nth, text in enumerate(TEXTS)))
        assert kinds(results) == [("judge_unusable", True)] * 4
        assert stage.judge.requests == 4 * 3


async def test_more_comparisons_than_places_wait_for_one(stage_of: "StageOf") -> None:
    async with stage_of(max_concurrency=3, comparison_strategy="all_pairs", judge={"delay_s": 0.01}) as stage:
        await stage.group([f"{nth}" for nth in range(6)])
        assert (stage.judge.requests, stage.judge.most_in_flight) == (15, 3)
