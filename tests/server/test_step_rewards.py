"""Claims about step rewards from an agent's side: nothing waits, shifts, is made up or is left behind."""

import asyncio
from typing import Any

import pytest

from paddock.errors import InfraError, VerifierError
from paddock.http import SCORE_STEP, Call, Peer, StepRequest, StepScore
from paddock.resources_servers.genrm.config import StepScoreSettings
from paddock.resources_servers.genrm.steps import StepScorer
from paddock.server import Handler, ResourcesServer, ServerConfig
from paddock.server.base import Reference
from paddock.server.step_rewards import SPARE_S, StepRewardCollector, StepRewardSettings
from paddock.testing import over
from paddock.testing.judges import ScriptedJudge, ScriptedJudgeConfig
from paddock.types import JsonObject, Row, Stamp, Verdict
from paddock.types.responses import call_item, message_item
from paddock.types.step_rewards import StepRewards, combine_rewards

WITHOUT_CALL = (4, 9, 20)
GOOD = (1, 2, 5, 9, 10, 13, 20)
FAILING, HANGING, DOWN = 7, 11, 15


class Judge(ScriptedJudge):
    """One vote of the step FAILING fails, as all do of DOWN; HANGING gets no answer to its second vote."""

    async def responses(self, body: JsonObject, call: Call) -> JsonObject:
        told, vote = str(body["input"][0]["content"]).rpartition("# The step to judge")[2], body["metadata"]["vote"]
        if f"[{DOWN}]" in told or (f"[{FAILING}]" in told and vote == "0"):
            raise InfraError("down, as scripted", kind="judge_down")
        if f"[{HANGING}]" in told and vote == "1":
            await asyncio.Event().wait()
        return await super().responses(body, call)


class Scoring(ResourcesServer[ServerConfig, Any]):
    """A resources server that judges steps."""

    scorer: StepScorer

    def handlers(self) -> Any:
        handler: Handler = self.scorer.score
        return {SCORE_STEP: handler}


class Odd(Scoring):
    """Answers about another step, or breaks."""

    answers: tuple[Any, ...] = ()

    def handlers(self) -> Any:
        return {SCORE_STEP: self._answer}

    async def _answer(self, request: StepRequest, call: Call) -> StepScore:
        answer = self.answers[int(request.step_id.removeprefix("step_")) - 1]
        if isinstance(answer, Exception):
            raise answer
        return StepScore.of(str(answer), [1], [None])


def settings(**known: Any) -> StepRewardSettings:
    reference = Reference(type="resources_servers", name="scoring")
    return StepRewardSettings.model_validate({"server": reference, "unscored": "outcome", **known})


def collector(peer: Peer, call: Call | None = None, **known: Any) -> StepRewardCollector:
    row = Row(responses_create_params={"input": []}, stamp=Stamp(group_id=1, member=0))
    own = settings(**known)
    slots = asyncio.Semaphore(own.max_concurrency)
    return StepRewardCollector(own, peer, slots, row, call or Call(), problem="Fix it.")


def items(number: int) -> list[JsonObject]:
    text = f"[{number}] {'well' if number in GOOD else 'badly'}"
    if number in WITHOUT_CALL:
        return [message_item(text)]
    call = call_item("bash", "{}")
    return [call, {"type": "function_call_output", "call_id": call["call_id"], "output": text}]


def world(vote_timeout_s: float, **judge: Any) -> tuple[Judge, Scoring]:
    peers: dict[str, Peer] = {}
    found = Judge(ScriptedJudgeConfig(needle="well", **judge), name="judge", peers=peers)
    server = Scoring(ServerConfig(), name="scoring", peers=peers)
    score_settings = StepScoreSettings(max_concurrency=4, vote_timeout_s=vote_timeout_s)
    server.scorer = StepScorer(score_settings, lambda: [peers["judge"]])
    return found, server


def expected(number: int, *, missing: dict[int, str]) -> float | None:
    return None if number in missing else 1.0 if number in GOOD else -1.0


@pytest.mark.parametrize("transport", ["direct", "http"])
async def test_twenty_steps_three_without_a_call_one_vote_failed_one_judge_hanging(transport: Any) -> None:
    judge, server = world(vote_timeout_s=300.0, delay_s=0.001)
    async with over(transport, judge, server) as peers, collector(peers["scoring"], score_timeout_s=0.1) as steps:
        for number in range(1, 21):
            steps.submit(number, items(number), f"turn_{number}")
        assert steps.n_pending == 20
        await _until(lambda: steps.n_pending == 1)
        rewards = await steps.collect()
        await _until(lambda: judge.in_flight == 0)
    missing = {HANGING: "late", DOWN: "no_vote"}
    assert [(step.step_id, step.turn, step.turn_id) for step in rewards.scores] == [
        (f"step_{n}", n, f"turn_{n}") for n in range(1, 21)
    ]
    assert [step.score for step in rewards.scores] == [expected(n, missing=missing) for n in range(1, 21)]
    assert {step.turn: step.missing for step in rewards.scores if step.missing} == missing
    assert rewards.scores[FAILING - 1].votes == [None, -1, -1]
    assert judge.most_in_flight <= 4
    mean = (len(GOOD) - (18 - len(GOOD))) / 18
    verdict = combine_rewards(Verdict(reward=1.0, reason="resolved"), rewards.model_copy(update={"coefficient": 0.5}))
    assert abs(verdict.reward - (1 + 0.5 * mean)) < 1e-9


async def test_a_vote_that_hangs_costs_itself_alone_where_the_server_ends_it_first() -> None:
    judge, server = world(vote_timeout_s=0.3)
    async with over("direct", judge, server) as peers, collector(peers["scoring"], score_timeout_s=60.0) as steps:
        steps.submit(HANGING, items(HANGING))
        rewards = await steps.collect()
    assert (rewards.scores[0].votes, rewards.scores[0].score) == ([-1, None, -1], -1.0)


async def test_no_step_waits_for_a_score_and_the_end_waits_no_longer_than_it_may() -> None:
    judge, server = world(vote_timeout_s=300.0, hang_needle="[")
    async with over("direct", judge, server) as peers, collector(peers["scoring"], score_timeout_s=0.2) as steps:
        for number in range(1, 21):
            steps.submit(number, items(number))
        assert judge.requests == 0, "asking is nothing that a step does itself"
        async with asyncio.timeout(30):
            rewards = await steps.collect()
        assert judge.in_flight == 0
    assert {step.missing for step in rewards.scores} == {"late"}
    assert combine_rewards(Verdict(reward=0.0, reason="tests_fail"), rewards).reward == 0.0


async def test_steps_that_are_asked_about_at_once_are_bounded_and_those_that_wait_are_missing_too() -> None:
    judge, server = world(vote_timeout_s=300.0, hang_needle="[")
    known: dict[str, Any] = {"score_timeout_s": 0.1, "max_concurrency": 1}
    async with over("direct", judge, server) as peers, collector(peers["scoring"], **known) as steps:
        for number in (1, 2, 3):
            steps.submit(number, items(number))
        rewards = await steps.collect()
    assert judge.requests == 3, "the votes of one step"
    assert [step.missing for step in rewards.scores] == ["late"] * 3


async def test_waiting_leaves_the_rollout_its_own_time() -> None:
    judge, server = world(vote_timeout_s=300.0, hang_needle="[")
    call = Call().within(SPARE_S + 0.1)
    async with (
        over("direct", judge, server) as peers,
        collector(peers["scoring"], call, score_timeout_s=300.0) as steps,
    ):
        steps.submit(1, items(1))
        rewards = await steps.collect()
    assert [step.missing for step in rewards.scores] == ["late"], "the rollout's own end would have been `timeout`"


async def test_whoever_leaves_leaves_nothing_running() -> None:
    judge, server = world(vote_timeout_s=300.0, hang_needle="[")
    async with over("direct", judge, server) as peers:
        with pytest.raises(InfraError):
            async with collector(peers["scoring"]) as steps:
                steps.submit(1, items(1))
                await _until(lambda: judge.in_flight == 3)
                raise InfraError("the sandbox died")
        assert judge.in_flight == 0
        task = asyncio.create_task(_ask_for_ever(peers["scoring"]))
        await _until(lambda: judge.in_flight == 3)
        task.cancel()
        await asyncio.wait([task])
        assert (task.cancelled(), judge.in_flight) == (True, 0)


async def test_what_the_judging_gets_wrong_is_missing_and_fails_nothing() -> None:
    server = Odd(ServerConfig(), name="scoring", peers={})
    server.answers = ("step_1", "step_1", ValueError("broken"), InfraError("down", kind="connection"))
    async with over("direct", server) as peers, collector(peers["scoring"]) as steps:
        for number in range(1, 5):
            steps.submit(number, items(number))
        rewards = await steps.collect()
    assert [step.score for step in rewards.scores] == [1.0, None, None, None]
    assert [step.missing for step in rewards.scores] == [None, "other_step", "ValueError", "connection"]


async def test_steps_without_a_call_may_be_left_out_and_keep_their_places() -> None:
    judge, server = world(vote_timeout_s=300.0)
    async with over("direct", judge, server) as peers, collector(peers["scoring"], skip_without_call=True) as steps:
        for number in (3, 4, 5, 20):
            steps.submit(number, items(number))
        rewards = await steps.collect()
    assert [(step.turn, step.score, step.missing) for step in rewards.scores] == [
        (3, -1.0, None),
        (4, None, "skipped"),
        (5, 1.0, None),
        (20, None, "skipped"),
    ]
    assert judge.requests == 6
    assert "[4]" in str(judge.seen[-1]["input"]), "what was not judged is history all the same"


async def test_the_same_rollout_asks_for_the_same_votes() -> None:
    first, second = await _votes(seed_of=0), await _votes(seed_of=0)
    assert first == second
    assert first != await _votes(seed_of=1)


async def _votes(seed_of: int) -> StepRewards:
    _, server = world(vote_timeout_s=300.0)
    hashing = ScriptedJudge(ScriptedJudgeConfig(), name="judge", peers={})
    row = Row(responses_create_params={"input": []}, stamp=Stamp(group_id=1, member=seed_of))
    async with over("direct", hashing, server) as peers:
        server.scorer = StepScorer(StepScoreSettings(votes=5), lambda: [peers["judge"]])
        slots = asyncio.Semaphore(2)
        async with StepRewardCollector(settings(), peers["scoring"], slots, row, Call(), problem="Fix it.") as steps:
            for number in range(1, 9):
                steps.submit(number, [message_item(f"said {number}")])
            return await steps.collect()


async def _ask_for_ever(peer: Peer) -> None:
    async with collector(peer, score_timeout_s=300.0) as steps:
        steps.submit(1, items(1))
        await steps.collect()


async def _until(holds: Any) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("skips", [False, True])
async def test_a_rollout_of_which_no_step_was_judged_is_masked_and_one_without_steps_to_judge_is_not(
    skips: bool,
) -> None:
    judge, server = world(vote_timeout_s=300.0, hang_needle="[")
    async with (
        over("direct", judge, server) as peers,
        collector(peers["scoring"], score_timeout_s=0.1, unscored="mask", skip_without_call=skips) as steps,
    ):
        steps.submit(1, [message_item("[1] thinking aloud")])
        if skips:
            assert (await steps.collect()).present_scores == []
            return
        with pytest.raises(VerifierError, match=r"of 1 steps none was judged \(late\)") as failed:
            await steps.collect()
        assert (failed.value.kind, failed.value.retryable) == ("steps_unjudged", False)
