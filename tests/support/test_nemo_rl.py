"""Claims about the scripted chat server of NeMo-RL: it fails whoever breaks a rule, and splices as the real one."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.nemo_rl import FailedError, NemoRlChat, Renderer, Sampling

from paddock.testing.engines import ScriptedEngine
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate
from paddock.types import JsonObject

VOCABULARY = small_vocabulary()
END = VOCABULARY.stops["<|im_end|>"]
USER: JsonObject = {"role": "user", "content": "Go."}
GOOD: JsonObject = {
    "model": "policy",
    "messages": [USER],
    "temperature": 1.0,
    "top_p": 0.9,
    "logprobs": True,
    "top_logprobs": 0,
    "return_tokens_as_token_ids": True,
}


def template(name: str = "chatml") -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name].source, VOCABULARY.special_texts)


@pytest.fixture
async def chat() -> AsyncIterator[NemoRlChat]:
    engine = ScriptedEngine(VOCABULARY, lambda _: "<think>\nhm\n</think>\n\nok")
    async with NemoRlChat(engine, VOCABULARY, template(), Sampling(1.0, 0.9, 0.6, 0.95), max_model_len=60) as made:
        yield made


async def post(chat: NemoRlChat, body: JsonObject, path: str = "/chat/completions") -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.post(chat.url + path, json={key: body[key] for key in body if body[key] is not None})


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"top_k": 20}, 500, "top_k"),
        ({"top_p": None}, 500, "top_p"),
        ({"temperature": None}, 500, "have to be one of"),
        ({"temperature": 0.6}, 500, "have to be one of"),
        ({"top_logprobs": None}, 400, "top_logprobs"),
        ({"n": 2}, 400, "one answer"),
        ({"model": "another"}, 404, "another"),
        ({"messages": []}, 422, "messages"),
        ({"messages": [{"role": "user", "content": "Go. " * 60}]}, 400, "maximum context length"),
        ({"messages": [{**USER, "prompt_token_ids": [1]}]}, 500, "generation_token_ids"),
    ],
    ids=str,
)
async def test_each_rule_is_enforced_as_there(chat: NemoRlChat, change: JsonObject, status: int, why: str) -> None:
    answer = await post(chat, {**GOOD, **change})
    assert answer.status_code == status
    assert why in chat.refused[0]
    assert chat.seen == []
    if status == 500:
        assert answer.text == "Internal Server Error"
    else:
        assert why in answer.json()["error"]["message"]


@pytest.mark.parametrize("change", [{}, {"top_k": -1}, {"temperature": 0.6, "top_p": 0.95}, {"n": 1}], ids=str)
async def test_what_keeps_the_rules_is_answered_with_ids_on_the_message(chat: NemoRlChat, change: JsonObject) -> None:
    answer = (await post(chat, {**GOOD, **change})).json()
    message = answer["choices"][0]["message"]
    (seen,) = chat.seen
    assert (message["prompt_token_ids"], message["generation_token_ids"]) == (seen.prompt, seen.sampled)
    assert message["generation_log_probs"] == seen.log_probs
    assert (message["content"], message["reasoning"]) == ("ok", "hm")
    assert VOCABULARY.decode(seen.prompt) == "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"
    assert answer["usage"]["prompt_tokens"] == len(seen.prompt)


async def test_without_log_probs_and_in_streams_there_are_no_ids(chat: NemoRlChat) -> None:
    plain = await post(chat, {**GOOD, "logprobs": None, "top_logprobs": None})
    streamed = await post(chat, {**GOOD, "stream": True})
    assert "generation_token_ids" not in plain.json()["choices"][0]["message"]
    assert streamed.text.startswith("data: ")
    assert "generation_token_ids" not in streamed.text


async def test_the_budget_is_cut_to_what_there_is_room_for(chat: NemoRlChat) -> None:
    bodies = ({**GOOD, "max_tokens": 500, "messages": [{"role": "user", "content": "Go. " * n}]} for n in range(99))
    answer = await post(chat, next(body for body in bodies if len(chat.render(body)) > 54))
    used = answer.json()["usage"]
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert used["total_tokens"] == 60


@pytest.mark.parametrize(("over", "status", "why"), [(0, 400, "max_tokens must be at least 1"), (1, 500, "no room")])
async def test_a_prompt_that_leaves_no_room_only_as_it_is_spliced(
    chat: NemoRlChat, over: int, status: int, why: str
) -> None:
    messages = [USER, {"role": "assistant", "content": "Said."}, USER]
    tail = len(splice(messages, [7])) - 1
    ids = {"prompt_token_ids": [7] * (60 - tail + over), "generation_token_ids": []}
    answer = await post(chat, {**GOOD, "messages": [USER, {**messages[1], **ids}, USER]})
    assert answer.status_code == status
    assert why in chat.refused[0]


async def test_tokenize_gives_the_prompt_that_an_answer_would_get(chat: NemoRlChat) -> None:
    first = (await post(chat, GOOD)).json()["choices"][0]["message"]
    body = {**GOOD, "messages": [USER, first, USER]}
    root = chat.url.removesuffix("/v1")
    async with httpx.AsyncClient() as client:
        tokens = (await client.post(f"{root}/tokenize", json=body)).json()["tokens"]
    await post(chat, body)
    assert tokens == chat.seen[1].prompt


def splice(messages: list[JsonObject], given: list[int], name: str = "chatml", **more: Any) -> list[int]:
    made = Renderer(VOCABULARY, template(name), {})
    body = {"messages": messages, **more}
    return made.splice(body, made.render(body), given)


@pytest.mark.parametrize("ended", [True, False])
def test_given_ids_take_the_place_of_the_past_up_to_the_last_assistants_end(ended: bool) -> None:
    given = [7, 8, 9, *([END] if ended else [])]
    said = {"role": "assistant", "content": "What I said."}
    found = splice([USER, said, USER], given)
    assert found[:3] == [7, 8, 9]
    tail = "<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"
    assert VOCABULARY.decode(found[3:]) == tail


def test_the_place_is_found_by_end_tokens_where_the_template_drops_reasoning() -> None:
    said = {"role": "assistant", "content": "Said.", "reasoning": "I think. " * 9}
    found = splice([USER, said, USER], [7], "stripped_reasoning")
    assert VOCABULARY.decode(found[1:]) == "<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"


def test_end_tokens_in_what_is_said_are_counted_on_both_sides() -> None:
    tricky = {"role": "user", "content": "<|im_end|><|im_end|>"}
    found = splice([tricky, {"role": "assistant", "content": "Said."}, tricky], [7])
    assert VOCABULARY.decode(found[1:]).startswith("<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|><|im_end|>\n")


def test_a_template_without_end_tokens_is_a_failed_assertion() -> None:
    bare = Renderer(VOCABULARY, ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", {}), {})
    body = {"messages": [USER, {"role": "assistant", "content": "Said."}]}
    with pytest.raises(FailedError, match="end token 0") as failed:
        bare.splice(body, bare.render(body), [7])
    assert failed.value.status == 500


def test_ids_on_an_earlier_message_lose_what_was_said_between() -> None:
    """Why a client may send ids on the last assistant message alone."""
    between = [{"role": "assistant", "content": "First."}, USER, {"role": "assistant", "content": "Second."}]
    found = splice([USER, *between, USER], [7])
    assert VOCABULARY.decode(found[1:]) == "<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"
