"""Claims about a judge behind an endpoint: what it is sent, and what is made of its answer."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.streams import read_responses_stream

from paddock.config import validate
from paddock.errors import ConfigError, RequestError, from_wire
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.testing import TRANSPORTS, ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, messages, output_items

Judging = Callable[..., Any]
OPINION = '{"score_1": 4, "score_2": 2, "ranking": 2}'
COMPARISON: JsonObject = {
    "input": [{"role": "user", "content": "what is 2+2?"}],
    "metadata": {"response_1": "four", "response_2": "five", "principle": "be right", "judge_idx": "0"},
    "max_output_tokens": 77,
    "temperature": 0.6,
    "top_p": 0.95,
    "tools": [{"type": "function", "name": "add", "parameters": {}}],
}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_comparison_goes_out_in_roles_and_comes_back_as_a_response(judging: Judging, transport: str) -> None:
    said = ScriptedAnswer(OPINION, reasoning="one is right")
    async with (
        ScriptedUpstream(said, keep_bodies=True) as upstream,
        judging(upstream, transport=transport, api_key="k1") as (client, _),
    ):
        got = await client.ask("responses", COMPARISON)
    assert got.status == 200
    assert messages(got.body) == [OPINION]
    assert [item_type(item) for item in output_items(got.body)] == ["reasoning", "message"]
    assert output_items(got.body)[0]["summary"][0]["text"] == "one is right"
    assert upstream.headers[0]["authorization"] == "Bearer k1"
    assert upstream.bodies == [
        {
            "model": "judge",
            "max_tokens": 77,
            "temperature": 0.6,
            "top_p": 0.95,
            "messages": [
                {"role": "user", "content": "what is 2+2?"},
                {"role": "principle", "content": "be right"},
                {"role": "response_1", "content": "four"},
                {"role": "response_2", "content": "five"},
            ],
        }
    ]


async def test_a_judge_without_roles_is_asked_in_plain_words(judging: Judging) -> None:
    async with (
        ScriptedUpstream(ScriptedAnswer(OPINION), keep_bodies=True) as upstream,
        judging(upstream, prompt_form="plain", extra_body={"seed": 3, "stream": True}) as (client, _),
    ):
        got = await client.ask("responses", COMPARISON)
    assert messages(got.body) == [OPINION]
    body = upstream.bodies[0]
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["seed"], "stream" in body) == (3, False)


@pytest.mark.parametrize("dialect", ["responses", "chat", "messages"])
async def test_any_other_request_passes_as_chat(judging: Judging, dialect: Any) -> None:
    step: JsonObject = {"metadata": {"vote": "1", "extra_body": '{"seed": 1000}'}}
    told = [{"role": "user", "content": "was it a good step? <|im_end|>"}]
    step |= {"input": told} if dialect == "responses" else {"messages": told, "max_tokens": 9}
    async with (
        ScriptedUpstream(ScriptedAnswer("\\boxed{1}"), keep_bodies=True) as upstream,
        judging(upstream, chat_template_kwargs={"enable_thinking": True}) as (client, _),
    ):
        got = await client.ask(dialect, step)
    assert "boxed{1}" in str(got.body)
    body = upstream.bodies[0]
    assert content_text(body["messages"][0]["content"]) == "was it a good step? <|im_end|>"
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert dialect == "messages" or body["seed"] == 1000


async def test_who_asks_for_a_stream_gets_one(judging: Judging) -> None:
    async with (
        ScriptedUpstream(ScriptedAnswer(OPINION)) as upstream,
        judging(upstream, transport="http") as (client, _),
    ):
        got = await client.ask("responses", {**COMPARISON, "stream": True})
    assert messages(read_responses_stream(got.stream)) == [OPINION]


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        (f"<think>\nhm\n</think>\n\n{OPINION}", "hm", OPINION),
        (f"hm, the template began it</think>{OPINION}", "hm, the template began it", OPINION),
        (f"<think></think>{OPINION}", "", OPINION),
        ('<think>so far {"ranking": 1}', 'so far {"ranking": 1}', ""),
        (f"no thought {OPINION}", "", f"no thought {OPINION}"),
    ],
)
async def test_a_thought_is_no_answer(judging: Judging, text: str, thought: str, answer: str) -> None:
    async with ScriptedUpstream(ScriptedAnswer(text)) as upstream, judging(upstream) as (client, _):
        got = await client.ask("responses", COMPARISON)
    items = output_items(got.body)
    assert messages(got.body) == [answer]
    assert [item["summary"][0]["text"] for item in items if item_type(item) == "reasoning"] == (
        [thought] * bool(thought)
    )


async def test_a_cut_answer_says_so(judging: Judging) -> None:
    async with (
        ScriptedUpstream(ScriptedAnswer("{", finish_reason="length")) as upstream,
        judging(upstream) as (client, _),
    ):
        got = await client.ask("responses", COMPARISON)
    assert (got.body["status"], got.body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({"response_1": "a"}, "response_2"),
        ({"response_2": "a"}, "response_1"),
        ({"response_1": "a", "response_2": 3}, "response_2"),
        ({"response_1": "a", "response_2": "b", "principle": 3}, "principle"),
    ],
)
async def test_half_a_comparison_is_refused(judging: Judging, metadata: JsonObject, key: str) -> None:
    async with ScriptedUpstream() as upstream, judging(upstream) as (client, _):
        got = await client.ask("responses", {**COMPARISON, "metadata": metadata})
    error = from_wire(got.status, got.body)
    assert isinstance(error, RequestError)
    assert f"metadata.{key}" in error.message
    assert upstream.calls == 0


async def test_it_serves_no_rollouts(judging: Judging) -> None:
    async with ScriptedUpstream() as upstream, judging(upstream, transport="asgi") as (client, _):
        got = await client.ask("responses", COMPARISON, "ro_1")
    assert (got.status, upstream.calls) == (404, 0)


async def test_what_is_not_passed_on_is_counted(judging: Judging) -> None:
    async with ScriptedUpstream() as upstream, judging(upstream) as (client, server):
        await client.ask("responses", {**COMPARISON, "odd": 1})
    assert server.dropped == {"odd": 1}


@pytest.mark.parametrize("url", ["127.0.0.1:8000", []])
def test_an_endpoint_that_can_not_be_one_is_refused(url: Any) -> None:
    with pytest.raises(ConfigError, match="needs a URL"):
        validate(GenrmModelConfig, {"model": "m", "base_url": url}, "judge")
