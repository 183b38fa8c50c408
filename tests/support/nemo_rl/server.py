"""The server: routes `/v1/chat/completions` and `/tokenize` as inside NeMo-RL's generation worker.

Law     what the engine was given and gave is in `seen`, in the order in which answers ended; what was refused, and by
        which rule, in `refused`. Calls are numbered from 0 as they arrive.
Faults  are given by the number of the call; see `Fault`.
Errors  those of `rules`; an engine that fails is a 500, as any exception there.
"""

import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from aiohttp import web
from tests.support.nemo_rl import rules
from tests.support.nemo_rl.rules import FailedError, Sampling
from tests.support.nemo_rl.splice import Renderer

from paddock.errors import PaddockError
from paddock.http import Call
from paddock.server.exact import Parser, TokenEngine
from paddock.testing.engines import JsonCallParser
from paddock.tokens import ChatTemplate, Vocabulary
from paddock.types import JsonObject
from paddock.types.responses import new_id

Fault = Literal[
    "broken_splice",
    "no_ids",
    "no_log_probs",
    "short_log_probs",
    "nan",
    "null",
    "no_prompt_ids",
    "500",
    "overflow",
    "drop",
]
"""`broken_splice`: one of the given ids is another in the prompt. `nan`, `null`: a log-prob is. `drop`: the
connection closes before an answer. The others are named for what the answer is, or lacks."""
_PASSED = ("temperature", "top_p", "seed", "stop", "ignore_eos")
NO_ARGUMENTS: Mapping[str, Any] = {}


class NemoRlCall(NamedTuple):
    """One answer of the engine."""

    prompt: list[int]
    sampled: list[int]
    log_probs: list[float]
    spliced: bool
    """Ids were given for its past."""


class NemoRlChat:
    """Listens while it is open as an async context manager. The engine is its caller's to start and stop."""

    def __init__(
        self,
        engine: TokenEngine,
        vocabulary: Vocabulary,
        template: ChatTemplate,
        sampling: Sampling,
        *,
        model: str = "policy",
        max_model_len: int = 4096,
        parser: Callable[[], Parser] = JsonCallParser,
        template_kwargs: Mapping[str, Any] = NO_ARGUMENTS,
        routed_experts: bool = False,
        fault: Callable[[int], Fault | None] = lambda _: None,
    ) -> None:
        """`template_kwargs`: of `http_server_serving_chat_kwargs`."""
        self.fault = fault
        self.calls = 0
        self.bodies: list[JsonObject] = []
        self.seen: list[NemoRlCall] = []
        self.refused: list[str] = []
        self.url = ""
        """The base URL, with `/v1`."""
        self._engine = engine
        self._vocabulary = vocabulary
        self._renderer = Renderer(vocabulary, template, template_kwargs)
        self._sampling = sampling
        self._model = model
        self._max_model_len = max_model_len
        self._parser = parser
        self._routed_experts = routed_experts
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/tokenize", self._tokenize)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def render(self, body: JsonObject) -> list[int]:
        """The prompt of a request by the template alone, whatever ids it brings."""
        return self._renderer.render(body)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        nth, self.calls = self.calls, self.calls + 1
        fault = self.fault(nth)
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        try:
            body = await self._read(request)
            if fault == "500":
                raise FailedError(500, "scripted")
            rules.require_answerable(body, self._sampling, self._model)
            answer = await self._answer(body, fault)
        except FailedError as failed:
            return self._fail(failed)
        except PaddockError as error:
            return self._fail(FailedError(500, f"the engine failed: {error.message}"))
        if body.get("stream"):
            return web.Response(body=_events(answer), headers={"content-type": "text/event-stream"})
        return web.Response(text=json.dumps(answer), content_type="application/json")

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await self._read(request)
            chat = "messages" in body
            ids = self._prompt(body)[0] if chat else self._vocabulary.encode(str(body.get("prompt", "")))
        except FailedError as failed:
            return self._fail(failed)
        told = {"count": len(ids), "max_model_len": self._max_model_len, "tokens": ids, "token_strs": None}
        return web.json_response(told)

    async def _read(self, request: web.Request) -> JsonObject:
        body = await request.json()
        if not isinstance(body, dict):
            raise FailedError(422, "a JSON object is needed", "validation")
        self.bodies.append(body)
        return body

    def _fail(self, failed: FailedError) -> web.StreamResponse:
        self.refused.append(failed.why)
        if failed.kind is None:
            return web.Response(status=failed.status, text="Internal Server Error")
        return web.json_response(failed.body, status=failed.status)

    def _prompt(self, body: JsonObject, *, room: bool = False) -> tuple[list[int], list[int]]:
        """The prompt, and what it has to begin with."""
        given = rules.required_prefix(body) or []
        rendered_ids = self._renderer.render(body)
        if room:
            rules.require_room(body, len(rendered_ids), self._max_model_len)
        return self._renderer.splice(body, rendered_ids, given), given

    async def _answer(self, body: JsonObject, fault: Fault | None) -> JsonObject:
        if fault == "overflow":
            rules.require_room(body, self._max_model_len + 1, self._max_model_len)
        prompt, given = self._prompt(body, room=True)
        if fault == "broken_splice" and given:
            place = len(given) // 2
            prompt[place] = (prompt[place] + 1) % 256
        params = {key: body[key] for key in _PASSED if body.get(key) is not None}
        params["max_tokens"] = rules.budget(body, len(prompt), self._max_model_len)
        sampled: list[int] = []
        log_probs: list[float] = []
        reason: str | None = None
        async for chunk in self._engine.generate(prompt, params, Call(), rollout=None, stream=False):
            sampled += chunk.ids
            log_probs += chunk.log_probs
            reason = chunk.finish_reason or reason
        self.seen.append(NemoRlCall(prompt, sampled, log_probs, bool(given)))
        message = self._message(sampled)
        if rules.asks_for_tokens(body):
            message |= _tokens(prompt, sampled, log_probs, fault)
        if self._routed_experts:
            message["routed_experts"] = f"nrlre1:int8:{len(prompt) + len(sampled)}x0x2:"
        return {
            "id": new_id("chatcmpl"),
            "object": "chat.completion",
            "created": 1,
            "model": self._model,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": _log_probs(sampled, log_probs) if body.get("logprobs") else None,
                    "finish_reason": "tool_calls" if message["tool_calls"] and reason == "stop" else reason,
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(sampled),
                "total_tokens": len(prompt) + len(sampled),
            },
        }

    def _message(self, sampled: list[int]) -> JsonObject:
        text = self._vocabulary.decode([token for token in sampled if token not in self._vocabulary.stop_ids])
        said = self._parser().whole(text, sampled)
        calls = [
            {"id": new_id("chatcmpl-tool"), "type": "function", "function": call["function"]}
            for call in said.get("tool_calls") or []
        ]
        reasoning = said.get("reasoning_content")
        content = said.get("content") or None
        return {"role": "assistant", "content": content, "reasoning": reasoning, "tool_calls": calls}


def _tokens(prompt: list[int], sampled: list[int], log_probs: list[float], fault: Fault | None) -> JsonObject:
    """As the message brings them."""
    if fault == "no_ids":
        return {}
    told: list[float | None] = [*log_probs]
    if fault in ("nan", "null"):
        told[-1] = float("nan") if fault == "nan" else None
    if fault == "short_log_probs":
        told.pop()
    found: JsonObject = {"prompt_token_ids": prompt, "generation_token_ids": sampled, "generation_log_probs": told}
    for missing in ("no_log_probs", "no_prompt_ids"):
        if fault == missing:
            del found["generation_log_probs" if missing == "no_log_probs" else "prompt_token_ids"]
    return found


def _log_probs(sampled: list[int], log_probs: list[float]) -> JsonObject:
    """Beside the message; tokens are named by their ids."""
    pairs = zip(sampled, log_probs, strict=True)
    return {"content": [{"token": f"token_id:{token}", "logprob": value, "top_logprobs": []} for token, value in pairs]}


def _events(answer: JsonObject) -> bytes:
    """A stream, which brings no ids."""
    choice = answer["choices"][0]
    delta = {key: choice["message"][key] for key in ("role", "content", "reasoning")}
    delta["tool_calls"] = [{**call, "index": nth} for nth, call in enumerate(choice["message"]["tool_calls"])]
    chunk = {"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}
    data = json.dumps({**answer, "object": "chat.completion.chunk", "choices": [chunk]})
    return f"data: {data}\n\ndata: [DONE]\n\n".encode()
