"""An openai server in front of NeMo-RL's scripted chat server, and a client that plays a tool loop through it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.models import ModelClient, asking
from tests.support.nemo_rl import NemoRlChat, Sampling
from tests.support.streams import read_responses_stream

from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.testing.engines import EngineAnswer, ScriptedEngine
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, full_prompt
from paddock.tokens.export import inline
from paddock.types import JsonObject, Rollout, Row, Stamp, Turn, TurnRecord, Verdict
from paddock.types.responses import calls

PAIR: JsonObject = {"temperature": 1.0, "top_p": 1.0}
TOOL: JsonObject = {"type": "function", "name": "sh", "description": "", "parameters": {"type": "object"}}
FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
CHAT_TOOL: JsonObject = {"type": "function", "function": {key: TOOL[key] for key in TOOL if key != "type"}}


class Stand(NamedTuple):
    chat: NemoRlChat
    engine: ScriptedEngine
    client: ModelClient
    server: OpenAIServer


def settings(folder: Path, url: str | list[str], **config: Any) -> OpenAIConfig:
    given: JsonObject = {
        "base_url": url,
        "model": "policy",
        "engine": "spliced",
        "request_token_ids": True,
        "token_protocol": "nemo_rl",
        "first_retry_s": 0.001,
        "max_retry_s": 0.01,
        "turn_store": {"folder": str(folder)},
    }
    return OpenAIConfig.model_validate({**given, **config})


@asynccontextmanager
async def standing(
    folder: Path,
    answer: Callable[[list[int]], EngineAnswer],
    *,
    template: str = "chatml",
    config: JsonObject | None = None,
    **chat: Any,
) -> AsyncIterator[Stand]:
    """`config`: of the openai server; `chat`: of the chat server."""
    vocabulary = small_vocabulary(TEMPLATES[template].marks)
    engine = ScriptedEngine(vocabulary, answer)
    made = ChatTemplate(TEMPLATES[template].source, vocabulary.special_texts)
    async with NemoRlChat(engine, vocabulary, made, **{"sampling": Sampling(1.0, 1.0), **chat}) as upstream:
        server = OpenAIServer(settings(folder, upstream.url, **(config or {})), name="m", peers={})
        async with asking("direct", server) as client:
            yield Stand(upstream, engine, client, server)


def calling(number: int, *, thought: str = "", spaces: str = "  ") -> str:
    """Text of an answer with a call, spelled as no template would."""
    said = f"<think>\n{thought}\n</think>\n\n" if thought else ""
    return f'{said}Step {number}. <tool_call>{{"name":{spaces}"sh", "arguments": {{"n":{spaces}{number}}}}}</tool_call>'


async def play(
    stand: Stand, secret: str, steps: int, *, dialect: str = "responses", stream: bool = False, more: str = ""
) -> list[JsonObject]:
    """A tool loop; its history. `more`: what the user says after each result."""
    history: list[JsonObject] = [{"role": "user", "content": "Go."}]
    for number in range(steps):
        if dialect == "responses":
            body: JsonObject = {**PAIR, "input": [*history], "tools": [TOOL], "stream": stream}
            got = await stand.client.ask("responses", body, secret)
            answer = read_responses_stream(got.stream) if stream else got.body
            assert got.status == 200, got.body
            history += answer["output"]
            results = [
                {"type": "function_call_output", "call_id": call.call_id, "output": f"done {number}"}
                for call in calls(answer)
            ]
        else:
            body = {**PAIR, "messages": [*history], "tools": [CHAT_TOOL]}
            got = await stand.client.ask("chat", body, secret)
            assert got.status == 200, got.body
            message = got.body["choices"][0]["message"]
            history.append(message)
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": f"done {number}"}
                for call in message.get("tool_calls") or []
            ]
        history += results
        if more or not results:
            history.append({"role": "user", "content": more or "Go on."})
    return history


def require_exact(turns: Sequence[Turn], chat: NemoRlChat) -> None:
    """The record is what the engine was given and gave."""
    assert len(turns) == len(chat.seen)
    for turn, seen in zip(turns, chat.seen, strict=True):
        assert full_prompt(turns, turn.id) == seen.prompt
        assert (turn.sampled_ids, turn.log_probs) == (seen.sampled, seen.log_probs)


def require_one_chain(turns: Sequence[Turn]) -> None:
    assert [turn.parent for turn in turns] == [None, *(turn.id for turn in turns[:-1])]
    assert not any(turn.splice_broken for turn in turns)


def exported(record: TurnRecord, history: Sequence[JsonObject] = ()) -> JsonObject:
    """The rollout's inline form."""
    stamp = Stamp(run_id="r", group_id=1, group_size=1, member=0, attempt=0)
    return inline(
        Rollout(
            row=Row(responses_create_params={"input": []}, stamp=stamp),
            outcome="completed",
            response={"output": list(history[1:])},
            engine=record.engine,
            turns=record.turns,
            verdict=Verdict(reward=1.0, reason="match"),
        )
    )


def require_contiguous(line: JsonObject, chat: NemoRlChat) -> None:
    """As NeMo-RL's post-processing reads the line: each prompt begins with all before, and all of it was seen."""
    told = [item for item in line["response"]["output"] if item.get("generation_token_ids")]
    seen: list[int] = []
    for item in told:
        assert item["prompt_token_ids"][: len(seen)] == seen
        seen = item["prompt_token_ids"] + item["generation_token_ids"]
        assert len(item["generation_log_probs"]) == len(item["generation_token_ids"])
    exact = [tuple(item[key] for key in FIELDS) for item in told]
    assert exact == [(one.prompt, one.sampled, one.log_probs) for one in chat.seen]
