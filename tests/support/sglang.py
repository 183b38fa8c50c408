"""A server with SGLang's `/generate` that samples, aborts and fails on cue, on a real loopback port: for tests.

    async with ScriptedSglang(fault=lambda nth: "cut" if nth == 0 else None) as sglang:
        ... sglang.url, sglang.bodies

Tokens  the answer to a prompt ends a fixed text (`ANSWER`): what of it the prompt has at its end is not said again, so
        that a continuation can be told from a new answer. A log-prob follows from its id (`log_prob`).
Faults  are given by number of the generation, the two checks at the start not counted. It shares no code with the
        model server that asks it.
"""

import asyncio
from collections.abc import Callable, Sequence
from math import log
from types import TracebackType
from typing import Any, Literal, Self

import orjson
from aiohttp import web

from paddock.types import JsonObject

Fault = Literal[
    "hang",
    "drop",
    "cut",
    "stall_at_end",
    "500",
    "429",
    "400",
    "abort",
    "abort_at_once",
    "abort_500",
    "error_event",
    "garbage",
    "no_log_probs",
    "other_token",
    "no_reason",
    "short_spans",
    "no_stop_token",
    "cut_prompt",
    "nothing",
]
"""`hang`: no byte. `drop`: the connection closes before an answer. `cut`: in the middle of one. `stall_at_end`: it is
whole, and its connection stays open. `abort`: the answer ends in the middle, so that weights can change. The others are
answers that are wrong in one thing."""
EOS = 2
ANSWER = [101, 102, 103, 104, 105, 106, 107, EOS]


def log_prob(token: int) -> float:
    return -0.01 * token - 0.5


class ScriptedSglang:
    """Listens while it is open as an async context manager; can be closed and opened again on the same port."""

    def __init__(
        self,
        *,
        fault: Callable[[int], Fault | None] = lambda _: None,
        versions: tuple[tuple[str, int], ...] = (),
        incremental: bool = False,
        original_log_probs: bool = False,
        dropped: tuple[str, ...] = (),
        max_model_len: int | None = 1000,
        key: str | None = None,
        event_delay_s: float = 0.0,
        answer: Sequence[int] = ANSWER,
    ) -> None:
        """`versions`: weights, and the place in the answer up to which they sample; none: `default`. `incremental`:
        events have what is new. `original_log_probs`: without the temperature. `dropped`: fields that a router
        takes out."""
        self.fault = fault
        self.bodies: list[JsonObject] = []
        """Of the generations that were no checks."""
        self.keys: list[str | None] = []
        """Routing keys of these."""
        self.checks: list[JsonObject] = []
        self.cut_off = 0
        """Answers whose client went away."""
        self.url = ""
        self._whole = list(answer)
        self._versions = versions or (("default", len(answer)),)
        self._incremental = incremental
        self._original_log_probs = original_log_probs
        self._dropped = dropped
        self._max_model_len = max_model_len
        self._key = key
        self._event_delay_s = event_delay_s
        self._port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._check_key])
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/generate", self._generate)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _models(self, _request: web.Request) -> web.StreamResponse:
        entry = {"id": "scripted", "root": "scripted", "max_model_len": self._max_model_len}
        return web.json_response({"object": "list", "data": [entry]})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        body = {name: value for name, value in body.items() if name not in self._dropped}
        if "top_logprobs_num" in body:
            self.checks.append(body)
            return web.json_response(self._check(body))
        nth = len(self.bodies)
        self.bodies.append(body)
        self.keys.append(request.headers.get("X-SMG-Routing-Key"))
        fault = self.fault(nth)
        if (refused := await self._refusal(request, fault)) is not None:
            return refused
        whole = self._answer(body, fault)
        if not body.get("stream"):
            if fault == "cut":
                return web.Response(body=orjson.dumps(whole)[:40], content_type="application/json")
            return web.json_response(whole)
        return await self._stream(request, whole, fault)

    async def _refusal(self, request: web.Request, fault: Fault | None) -> web.StreamResponse | None:
        if fault == "hang":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cut_off += 1
                raise
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        if fault in ("500", "429", "400"):
            return web.json_response({"error": {"message": "no"}}, status=int(fault))
        if fault == "error_event":
            error = {"message": "The input (9 tokens) is longer than the model's context length.", "code": 400}
            return web.Response(body=_event({"error": error}), content_type="text/event-stream")
        if fault == "garbage":
            return web.Response(body=b"data: {\n\n", content_type="text/event-stream")
        return None

    def _check(self, body: JsonObject) -> JsonObject:
        temperature = 1.0 if self._original_log_probs else body["sampling_params"]["temperature"]
        top = [[log(0.5) / temperature, 7, None], [log(0.25) / temperature, 8, None]]
        answer = _state([7], len(body["input_ids"]), {"type": "length", "length": 1}, body.get("return_logprob"))
        if body.get("return_logprob"):
            answer["meta_info"]["output_top_logprobs"] = [top]
        return answer

    def _answer(self, body: JsonObject, fault: Fault | None) -> JsonObject:
        prompt = body["input_ids"]
        whole = self._whole
        said = next(size for size in range(len(whole), -1, -1) if prompt[len(prompt) - size :] == whole[:size])
        ids = whole[said:][: body["sampling_params"].get("max_new_tokens", 128)]
        is_whole = said + len(ids) == len(whole)
        reason: JsonObject = (
            {"type": "stop", "matched": whole[-1]} if is_whole else {"type": "length", "length": len(ids)}
        )
        if fault in ("abort", "abort_at_once", "abort_500"):
            ids = ids[:3] if fault == "abort" else []
            reason = {"type": "abort", "message": "Aborted"}
            if fault == "abort_500":
                reason |= {"status_code": 500, "err_type": "InternalServerError"}
        elif fault == "no_stop_token":
            ids = ids[:-1]
        elif fault == "nothing":
            ids, reason = [], {"type": "length", "length": 0}
        answer = _state(ids, len(prompt) - (fault == "cut_prompt"), reason, body.get("return_logprob"))
        answer["meta_info"]["weight_versions"] = self._spans(said, len(ids) - (fault == "short_spans"))
        if fault == "no_log_probs":
            del answer["meta_info"]["output_token_logprobs"]
        if fault == "other_token":
            answer["output_ids"] = [*ids[:-1], 9]
        if fault == "no_reason":
            answer["meta_info"]["finish_reason"] = None
        return answer

    def _spans(self, said: int, count: int) -> list[JsonObject]:
        spans: list[JsonObject] = []
        for version, end in self._versions:
            start = spans[-1]["end"] if spans else 0
            if (end := min(end - said, count)) > start:
                spans.append({"version": version, "start": start, "end": end})
        return spans

    async def _stream(self, request: web.Request, whole: JsonObject, fault: Fault | None) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        ids, pairs = whole["output_ids"], whole["meta_info"].get("output_token_logprobs")
        try:
            for end in range(1, max(len(ids), 1) + 1):
                is_last = end >= len(ids)
                start = end - 1 if self._incremental else 0
                meta = {**whole["meta_info"], "completion_tokens": min(end, len(ids))}
                if pairs is not None:
                    meta["output_token_logprobs"] = pairs[start:end]
                if not is_last:
                    meta |= {"finish_reason": None, "weight_versions": None}
                await response.write(_event({"output_ids": ids[start:end], "meta_info": meta}))
                await asyncio.sleep(self._event_delay_s)
                if fault == "cut" and end == 3 and request.transport is not None:
                    request.transport.close()
            if fault == "stall_at_end":
                await asyncio.Event().wait()
            await response.write(b"data: [DONE]\n\n")
        except (asyncio.CancelledError, ConnectionError):
            self.cut_off += 1
            raise
        return response


def _state(ids: list[int], n_prompt: int, reason: JsonObject, has_log_probs: Any) -> JsonObject:
    meta: JsonObject = {
        "finish_reason": reason,
        "prompt_tokens": n_prompt,
        "completion_tokens": len(ids),
        "cached_tokens": 4,
        "weight_version": "default",
        "weight_versions": [{"version": "default", "start": 0, "end": len(ids)}],
    }
    if has_log_probs:
        meta["output_token_logprobs"] = [[log_prob(token), token, None] for token in ids]
    return {"text": "", "output_ids": ids, "meta_info": meta}


def _event(data: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"
