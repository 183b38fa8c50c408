"""Claims about the judge's request: what NeMo-Gym's judges read, several judges in turn, every loop with an end."""

from typing import Any

import pytest

from paddock.errors import VerifierError
from paddock.http import Call, DirectPeer, Peer
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.judging.judges import GroupPrompt, Judges
from paddock.server import ModelServer, ServerConfig
from paddock.testing.judges import ScriptedJudge, ScriptedJudgeConfig
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

PROMPT = GroupPrompt([{"role": "user", "content": "Go."}], None)


class RefusingJudge(ModelServer[ServerConfig]):
    async def responses(self, body: JsonObject, call: Call) -> JsonObject:
        raise ValueError("too long")


class DraftingJudge(ModelServer[ServerConfig]):
    """Drafts, and is cut; then says what it means."""

    asked = 0

    async def responses(self, body: JsonObject, call: Call) -> JsonObject:
        self.asked += 1
        cut = self.asked == 1
        said = '{"score_1": 1, "score_2": 5, "ranking": 6}' if cut else '{"score_1": 5, "score_2": 1, "ranking": 1}'
        return make_response(
            [message_item(said)], body, model="m", incomplete_reason="max_output_tokens" if cut else None
        )


def judge(name: str = "judge", **config: Any) -> ScriptedJudge:
    return ScriptedJudge(ScriptedJudgeConfig.model_validate({"prefers": "hash", **config}), name=name, peers={})


def judges_of(*servers: ModelServer[Any], **config: Any) -> Judges:
    references = [{"type": "models_servers", "name": server.name} for server in servers]
    peers: dict[str, Peer] = {server.name: DirectPeer(server.name, server.handlers) for server in servers}
    return Judges(GenrmConfig.model_validate({"genrm_model_server": references, **config}), peers)


async def test_the_request_is_what_judge_models_read() -> None:
    asked = judge()
    params = {"input": [{"role": "system", "content": "Judge."}], "temperature": 0.6, "metadata": {"a": "b"}}
    judges = judges_of(asked, genrm_responses_create_params=params, num_judges_per_comparison=2)
    await judges.compare(GroupPrompt(PROMPT.history, "Be fair."), "left", "right", 1)
    assert asked.seen[0] == {
        "temperature": 0.6,
        "input": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Go."}],
        "metadata": {"a": "b", "response_1": "left", "response_2": "right", "principle": "Be fair.", "judge_idx": "1"},
    }
    await judges_of(asked).compare(PROMPT, "left", "right", 0)
    assert asked.seen[1]["metadata"] == {"response_1": "left", "response_2": "right"}
    assert asked.seen[1]["input"] == PROMPT.history


async def test_several_judges_take_turns() -> None:
    servers = [judge("one"), judge("two")]
    judges = judges_of(*servers, num_judges_per_comparison=3)
    for judge_idx in range(3):
        await judges.compare(PROMPT, "left", "right", judge_idx)
    assert [server.requests for server in servers] == [2, 1]


async def test_a_judge_that_hangs_ends_the_comparison_in_time() -> None:
    judges = judges_of(judge(hang_needle="left"), comparison_timeout_s=0.2, outage_retry_s=0.01)
    with pytest.raises(VerifierError) as failed:
        await judges.compare(PROMPT, "left", "right", 0)
    assert (failed.value.kind, failed.value.retryable) == ("judge_down", True)


async def test_what_a_judge_refuses_is_not_asked_again() -> None:
    with pytest.raises(VerifierError, match="too long") as failed:
        await judges_of(RefusingJudge(ServerConfig(), name="judge", peers={})).compare(PROMPT, "left", "right", 0)
    assert (failed.value.kind, failed.value.retryable) == ("judge_refused", False)


async def test_what_a_judge_wrote_before_it_was_cut_does_not_count() -> None:
    server = DraftingJudge(ServerConfig(), name="judge", peers={})
    found = await judges_of(server, genrm_parse_retry_sleep_s=0).compare(PROMPT, "left", "right", 0)
    assert (found.score_1, server.asked) == (5, 2)
    with pytest.raises(VerifierError) as failed:
        server.asked = 0
        await judges_of(server, genrm_parse_retries=0).compare(PROMPT, "left", "right", 0)
    assert failed.value.kind == "judge_unusable"
