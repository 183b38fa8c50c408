"""Claims about the votes on a step: seeds of their own, failures that are missing, bounds on what is in flight."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.errors import ConfigError
from paddock.http import SCORE_STEP, Call, StepRequest
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.resources_servers.genrm import GenrmServer
from paddock.resources_servers.genrm.config import GenrmConfig, StepScoreSettings
from paddock.resources_servers.genrm.steps import StepScorer
from paddock.testing import ScriptedAnswer, ScriptedUpstream, over
from paddock.testing.judges import ScriptedJudge, ScriptedJudgeConfig
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item


class VotingJudge(ScriptedJudge):
    """Answers votes by their number: a text, an error, or never."""

    answers: tuple[Any, ...] = ()

    async def responses(self, body: JsonObject, call: Call) -> JsonObject:
        self.seen.append(body)
        answer = self.answers[int(body["metadata"]["vote"])]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return make_response([message_item(answer)], body, model=self.name)


def a_request(step_id: str = "step_1", text: str = "done", seed: int = 7) -> StepRequest:
    return StepRequest(step_id=step_id, problem="Fix it.", step=[message_item(text)], seed=seed)


def by_vote(*answers: Any) -> VotingJudge:
    judge = VotingJudge(ScriptedJudgeConfig(), name="judge", peers={})
    judge.answers = answers
    return judge


async def test_a_score_is_the_mean_of_the_votes_that_are_there() -> None:
    judge = by_vote(r"\boxed{1}", ValueError("broken"), r"\boxed{-1}", "I can't say.", r"\boxed{+1}", None)
    settings = StepScoreSettings(votes=6, vote_timeout_s=0.2)
    async with over("direct", judge) as peers:
        score = await StepScorer(settings, lambda: [peers["judge"]]).score(a_request(), Call())
    assert score.step_id == "step_1"
    assert score.votes == [1, None, -1, None, 1, None]
    assert score.score is not None
    assert abs(score.score - 1 / 3) < 1e-12
    assert score.reasons == [None, "ValueError", None, "no_box", None, "late"]


async def test_without_any_vote_there_is_no_score() -> None:
    judge = ScriptedJudge(ScriptedJudgeConfig(fail_first=3), name="judge", peers={})
    async with over("http", judge) as peers:
        score = await StepScorer(StepScoreSettings(), lambda: [peers["judge"]]).score(a_request(), Call())
    assert (score.score, score.votes, score.reasons) == (None, [None] * 3, ["judge_down"] * 3)


async def test_each_vote_has_its_seed_and_number_and_judges_take_turns() -> None:
    judges = [ScriptedJudge(ScriptedJudgeConfig(needle="done"), name=name, peers={}) for name in ("first", "second")]
    params = {"temperature": 0.5, "metadata": {"extra_body": '{"min_p": 0.1}', "who": "us"}}
    async with over("direct", *judges) as peers:
        scorer = StepScorer(StepScoreSettings(responses_create_params=params), lambda: list(peers.values()))
        score = await scorer.score(a_request(), Call())
    assert score.votes == [1, 1, 1]
    assert [judge.requests for judge in judges] == [2, 1]
    seen = sorted((body for judge in judges for body in judge.seen), key=lambda body: str(body["metadata"]["vote"]))
    assert [body["metadata"]["vote"] for body in seen] == ["0", "1", "2"]
    assert [orjson.loads(body["metadata"]["extra_body"]) for body in seen] == [
        {"min_p": 0.1, "seed": seed} for seed in (7000, 7001, 7002)
    ]
    assert {(body["temperature"], body["metadata"]["who"]) for body in seen} == {(0.5, "us")}


async def test_waiting_for_others_is_not_a_votes_own_time() -> None:
    judge = by_vote(None, r"\boxed{1}")
    settings = StepScoreSettings(votes=2, max_concurrency=1, vote_timeout_s=0.2)
    async with over("direct", judge) as peers:
        score = await StepScorer(settings, lambda: [peers["judge"]]).score(a_request(), Call())
    assert score.reasons == ["late", None]


async def test_votes_in_flight_never_pass_the_limit() -> None:
    judge = ScriptedJudge(ScriptedJudgeConfig(needle="done", delay_s=0.02), name="judge", peers={})
    settings = StepScoreSettings(votes=3, max_concurrency=3)
    async with over("direct", judge) as peers:
        scorer = StepScorer(settings, lambda: [peers["judge"]])
        scores = await asyncio.gather(*(scorer.score(a_request(f"step_{n}"), Call()) for n in range(20)))
    assert [score.votes for score in scores] == [[1, 1, 1]] * 20
    assert (judge.requests, judge.most_in_flight) == (60, 3)


async def test_a_caller_that_goes_takes_its_votes_with_it() -> None:
    judge = ScriptedJudge(ScriptedJudgeConfig(hang_needle="done"), name="judge", peers={})
    async with over("direct", judge) as peers:
        scorer = StepScorer(StepScoreSettings(max_concurrency=1), lambda: [peers["judge"]])
        asking = asyncio.create_task(scorer.score(a_request(), Call()))
        async with asyncio.timeout(30):
            while not judge.in_flight:
                await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert (judge.in_flight, judge.requests) == (0, 1)
        after = await scorer.score(a_request(text="fine"), Call())
    assert None not in after.votes, "its slot is free again"


def test_an_extra_body_that_is_none_is_refused_at_once() -> None:
    settings = StepScoreSettings(responses_create_params={"metadata": {"extra_body": "[1]"}})
    with pytest.raises(ConfigError, match="extra_body"):
        StepScorer(settings, list)


@pytest.mark.parametrize("transport", ["direct", "http"])
async def test_the_server_judges_steps_for_whoever_asks(transport: Any, tmp_path: Path) -> None:
    judge = ScriptedJudge(ScriptedJudgeConfig(needle="done"), name="judge", peers={})
    reference = {"type": "models_servers", "name": "judge"}
    config = GenrmConfig.model_validate({"genrm_model_server": reference, "state_dir": tmp_path})
    async with over(transport, judge, GenrmServer(config, name="genrm", peers={})) as peers:
        found = await peers["genrm"].call(SCORE_STEP, a_request("step_3"), Call())
        other = await peers["genrm"].call(SCORE_STEP, a_request("step_4", text="broken"), Call())
    assert (found.step_id, found.score, other.score) == ("step_3", 1.0, -1.0)


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_an_endpoint_is_given_each_votes_own_seed(dialect: Any, tmp_path: Path) -> None:
    seen: list[JsonObject] = []

    def vote(body: JsonObject, _nth: int) -> ScriptedAnswer:
        seen.append(body)
        return ScriptedAnswer(r"It helps. \boxed{1}")

    async with ScriptedUpstream(vote) as upstream:
        settings = {"base_url": upstream.url, "model": "judge", "upstream_api": dialect}
        config = OpenAIConfig.model_validate({**settings, "turn_store": {"folder": str(tmp_path)}})
        async with over("http", OpenAIServer(config, name="judge", peers={})) as peers:
            score = await StepScorer(StepScoreSettings(), lambda: [peers["judge"]]).score(a_request(), Call())
    assert score.votes == [1, 1, 1]
    assert sorted(body["seed"] for body in seen) == [7000, 7001, 7002]
