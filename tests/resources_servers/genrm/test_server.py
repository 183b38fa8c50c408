"""Claims about the server's other routes and about its verdicts: `/compare`, scoring again, metrics, its page."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import orjson
import pytest

from paddock.collect.reverify import reverify
from paddock.config import Config
from paddock.errors import RequestError, RowError, VerifierError
from paddock.http import AGGREGATE, AggregateRequest, Call
from paddock.resources_servers.genrm import GenrmServer
from paddock.resources_servers.genrm.compare import COMPARE, CompareRequest
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.keys import judging_of, slot_of
from paddock.resources_servers.genrm.groups.schema import FILE
from paddock.resources_servers.genrm.groups.store import GroupStore
from paddock.resources_servers.genrm.groups.workers import WorkerLock
from paddock.resources_servers.genrm.judging.judges import GroupPrompt
from paddock.server.app import build_app
from paddock.testing import TRANSPORTS, Transport
from paddock.types import AgentRef, JsonObject, Rollout, Row, Stamp, Verdict
from paddock.types.responses import make_response, message_item

if TYPE_CHECKING:
    from tests.resources_servers.genrm.conftest import GenrmStage

    StageOf = Callable[..., AbstractAsyncContextManager[GenrmStage]]

HISTORY = [{"role": "user", "content": "Say something."}]
JUDGE = {"type": "models_servers", "name": "judge"}
SHAPED: dict[str, Any] = {
    "reasoning_bonus": 0.5,
    "answer_bonus": 0.5,
    "group_reasoning_length_penalty_coeff": 0.3,
    "group_answer_length_penalty_coeff": 0.35,
    "group_style_penalty_coeff": 0.05,
}


def compare(*texts: str, principle: str | None = None) -> CompareRequest:
    responses = [make_response([message_item(text)], {}, model="m") for text in texts]
    return CompareRequest(conversation_history=HISTORY, response_objs=responses, principle=principle)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_compare_answers_under_the_names_that_callers_know(stage_of: "StageOf", transport: Transport) -> None:
    async with stage_of(transport=transport, position_swap=True) as stage:
        reply = await stage.peers[0].call(COMPARE, compare("a", "b", "c"), Call())
        assert (len(reply.rewards), len(reply.comparison_results), stage.judge.requests) == (3, 6, 6)
        assert reply.metrics["judge_swap_consistency"] == 1.0
        scores = [score for one in reply.comparison_results for score in (one.score_1, one.score_2)]
        assert reply.metrics["mean_individual_score"] == pytest.approx(sum(scores) / 12)
        assert {"std_individual_score", "tiebreak_usage_rate"} < set(reply.metrics)
        assert (await stage.peers[0].call(COMPARE, compare("a"), Call())).rewards == [3.0]
        assert (await stage.peers[0].call(COMPARE, compare(), Call())).rewards == []


async def test_compare_takes_as_many_responses_as_a_group_may_have(stage_of: "StageOf") -> None:
    async with stage_of(comparison_strategy="uncertain") as stage:
        with pytest.raises(RequestError, match="129 of them; at most 128"):
            await stage.peers[0].call(COMPARE, compare(*["a"] * 129), Call())


async def test_compare_over_http_is_plain_json(stage_of: "StageOf") -> None:
    async with stage_of() as stage:
        transport = httpx.ASGITransport(build_app(stage.servers[0]))
        async with httpx.AsyncClient(transport=transport, base_url="http://genrm") as client:
            reply = await client.post("/compare", json=compare("a", "b").model_dump(mode="json"))
            assert set(reply.json()) == {"rewards", "comparison_results", "metrics"}
            first = reply.json()["comparison_results"][0]
            assert set(first) == {"response_i", "response_j", "judge_idx", "score_1", "score_2", "ranking"}
            assert (await client.post("/compare", json={"response_objs": []})).status_code == 400


async def test_compare_fails_whole_when_one_comparison_fails(stage_of: "StageOf") -> None:
    async with stage_of(genrm_parse_retries=0, judge={"hang_needle": "slow"}) as stage:
        stage.judge.breaks = lambda first, second: (first, second) == ("a", "b")
        with pytest.raises(VerifierError) as failed:
            await stage.peers[0].call(COMPARE, compare("a", "b", "slow"), Call())
        assert (failed.value.kind, failed.value.status) == ("judge_unusable", 502)
        await stage.until(lambda: stage.judge.in_flight == 0)


async def test_the_principle_is_the_rows_else_the_configs_and_only_where_it_is_wanted(stage_of: "StageOf") -> None:
    for config, given, told in (
        ({"use_principle": True, "default_principle": "be short"}, "be kind", "be kind"),
        ({"use_principle": True, "default_principle": "be short"}, None, "be short"),
        ({}, "be kind", None),
    ):
        async with stage_of(**config) as stage:
            await stage.peers[0].call(COMPARE, compare("a", "b", principle=given), Call())
            await stage.group(["a", "b"], task={"principle": given} if given else {})
            assert [body["metadata"].get("principle") for body in stage.judge.seen] == [told] * 4


async def test_a_verdict_is_scored_again_from_its_record_alone(stage_of: "StageOf") -> None:
    async with stage_of(comparison_strategy="all_pairs", **SHAPED) as stage:
        texts = ["# Short", "A longer answer.", "The longest of all answers.", "**Bold** words"]
        verdicts = await stage.group(texts)
        late = await stage.verify(1, "late", attempt=1)
        settings = stage.servers[0].config
    # Not started, and nobody to ask.
    server = GenrmServer(settings, name="genrm", peers={})
    for member, (text, verdict) in enumerate([*zip(texts, verdicts, strict=True), ("late", late)]):
        stored = Verdict.model_validate_json(verdict.model_dump_json())
        row = stage.row(member % 4)
        response = make_response([message_item(text)], {}, model="m")
        again = await server.reverify(server.read_task(row), row, response, stored)
        assert again.reward == pytest.approx(verdict.reward, abs=1e-12)
        assert again.model_dump() == verdict.model_dump()
    with pytest.raises(VerifierError, match="no `genrm`"):
        await server.reverify(server.read_task(row), row, response, Verdict(reward=1.0, reason="scored"))


async def test_a_stored_run_is_scored_again_without_a_judge(stage_of: "StageOf", tmp_path: Path) -> None:
    async with stage_of() as stage:
        verdicts = await stage.group(["a", "b"])
    lines = []
    for member, verdict in enumerate(verdicts):
        row = stage.row(member, size=2).model_copy(update={"agent_ref": AgentRef(name="agent")})
        response = make_response([message_item("ab"[member])], {}, model="m")
        rollout = Rollout(row=row, outcome="completed", response=response, verdict=verdict)
        lines.append(orjson.dumps(rollout.to_wire()) + b"\n")
    (tmp_path / "rollouts.jsonl").write_bytes(b"".join(lines))
    agent = {"resources_server": {"type": "resources_servers", "name": "genrm"}, "model_server": JUDGE}
    tree: JsonObject = {
        "genrm": {"resources_servers": {"genrm": {"genrm_model_server": JUDGE, "state_dir": "/proc/nowhere"}}},
        "judge": {"models_servers": {"paddock.testing.judges:ScriptedJudge": {"fail_first": 1000}}},
        "agent": {"agents": {"single_step": agent}},
    }
    found = await reverify(Config.from_yaml(orjson.dumps(tree).decode()), tmp_path)
    assert (found.n, found.changed, found.failed) == (2, [], [])


async def test_metrics_of_a_run_count_each_group_once(stage_of: "StageOf") -> None:
    async with stage_of(position_swap=True) as stage:
        groups = [await stage.group(["a", "b", "c"], group_id=nth) for nth in range(2)]
        late = await stage.verify(0, "late", size=3, group_id=0, attempt=1)
        verdicts = [verdict for group in groups for verdict in group]
        replies = [{"reward": one.reward, **one.extras} for one in [*verdicts, late]]
        metrics = await stage.peers[0].call(AGGREGATE, AggregateRequest(verify_responses=replies), Call())
    assert metrics.agent_metrics["judge_comparisons"] == 12.0
    assert metrics.agent_metrics["judge_swap_consistency"] == 1.0
    assert metrics.agent_metrics["mean/reward"] == pytest.approx(sum(one["reward"] for one in replies) / 7)


def test_the_page_shows_what_may_be_compared_and_verified() -> None:
    server = GenrmServer(GenrmConfig.model_validate({"genrm_model_server": JUDGE}), name="genrm", peers={})
    paths = build_app(server).openapi()["paths"]
    body = paths["/compare"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"conversation_history", "response_objs", "principle"}
    reply = paths["/compare"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(reply["properties"]) == {"rewards", "comparison_results", "metrics"}
    row = paths["/verify"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {"principle", "prompt_id", "response"} < set(row)


async def test_a_caller_that_disconnects_is_not_waited_for(stage_of: "StageOf", tmp_path: Path) -> None:
    def claims() -> int:
        with closing(sqlite3.connect(tmp_path / FILE)) as db:
            return int(db.execute("SELECT count(*) FROM answers WHERE coalesce(answer, failed) IS NULL").fetchone()[0])

    async with stage_of(folder=tmp_path, transport="http", judge={"hang_needle": "slow"}) as stage:
        waiting = [asyncio.create_task(stage.verify(nth, text, size=2)) for nth, text in enumerate(["slow", "b"])]
        await stage.until(lambda: claims() == 2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await stage.until(lambda: claims() == 0)


def test_known_answers_are_played_by_member() -> None:
    server = GenrmServer(GenrmConfig.model_validate({"genrm_model_server": JUDGE}), name="genrm", peers={})
    rows = [
        Row(responses_create_params={"input": "x"}, stamp=Stamp(member=member), task={"answers": ["a", "b"]})
        for member in range(3)
    ]
    played = [server.oracle(server.read_task(row), row)[0][0]["content"][0]["text"] for row in rows]
    assert played == ["a", "b", "a"]
    with pytest.raises(RowError):
        server.oracle(server.read_task(rows[0].model_copy(update={"task": {}})), rows[0])


def test_what_is_judged_otherwise_is_another_group() -> None:
    def key(stamp: Stamp, history: str = "x", **config: Any) -> str:
        settings = GenrmConfig.model_validate({"genrm_model_server": JUDGE, **config})
        subject = GroupPrompt([{"role": "user", "content": history}], None)
        return slot_of(settings, stamp, None, subject, judging=judging_of(settings)).key

    stamp = Stamp(run_id="r", group_id=1, group_size=4, member=0, attempt=0)
    assert key(stamp) == key(stamp.model_copy(update={"member": 3, "attempt": 2}), max_concurrency=7)
    others = [
        key(stamp, history="y"),
        key(stamp, position_swap=True),
        *(key(stamp.model_copy(update=one)) for one in ({"group_size": 5}, {"cohort": "c"}, {"run_id": "s"})),
    ]
    assert len({key(stamp), *others}) == 6


def test_a_dead_worker_is_told_from_a_living_one(tmp_path: Path) -> None:
    one, other = WorkerLock(tmp_path), WorkerLock(tmp_path)
    assert other.is_alive(one.id) and one.is_alive(other.id) and not one.is_alive("1-nobody")
    one.close()
    assert not other.is_alive(one.id)
    other.close()


async def test_groups_that_are_over_are_forgotten(stage_of: "StageOf", tmp_path: Path) -> None:
    async with stage_of(folder=tmp_path) as stage:
        await stage.group(["a", "b"])
    now = [0.0]
    store = GroupStore(tmp_path, clock=lambda: now[0])
    assert store.prune(keep_settled_s=10.0, keep_open_s=10.0, in_use=()) == 0
    now[0] = 1e12
    assert store.prune(keep_settled_s=10.0, keep_open_s=10.0, in_use=()) == 1
    store.close()
