"""A server with vLLM's routes that samples and fails on cue, on a real loopback port: for tests.

    async with ScriptedVllm(fault=lambda nth: "cut" if nth == 0 else None) as vllm:
        ... vllm.url, vllm.bodies

Tokens  what is sampled follows from the prompt's ids (`sampled`), a log-prob from its id (`log_prob`). It shares
        no code with the model server that asks it, so that it can show its mistakes.
Faults  are given by number of the generation, start-up checks included; see `Fault`.
"""

import asyncio
import base64
import io
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import orjson
from aiohttp import web

from paddock.types import JsonObject

if TYPE_CHECKING:
    from numpy.typing import NDArray

Fault = Literal[
    "hang",
    "drop",
    "cut",
    "stall",
    "500",
    "429",
    "abort",
    "abort_at_once",
    "error_event",
    "garbage",
    "no_log_probs",
    "other_token",
    "no_reason",
    "short_spans",
    "no_experts",
    "short_experts",
]
"""`hang`: no byte. `drop`: the connection closes before an answer. `cut`: in the middle of one. `stall`: it falls
silent there. `abort`: so ends the answer there; `abort_at_once`: before anything was sampled. The others are answers
that are wrong in one thing."""
EOS = 2
USAGE: JsonObject = {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}


def sampled(prompt: list[int], count: int) -> list[int]:
    """What is sampled: `count` ids, the end among them where there are more than three."""
    body = [100 + (sum(prompt) + position) % 50 for position in range(count - 1)]
    return [*body, EOS if count > 3 else 100]


def log_prob(token: int) -> float:
    return -0.01 * token - 0.5


class ScriptedVllm:
    """Listens while it is open as an async context manager; can be closed and opened again on the same port."""

    def __init__(
        self,
        *,
        form: Literal["generate", "completions", "text"] = "generate",
        count: int = 8,
        fault: Callable[[int], Fault | None] = lambda _: None,
        processed: bool = True,
        version: str | None = "7",
        max_model_len: int | None = 1000,
        key: str | None = None,
        chunk_delay_s: float = 0.0,
        model: str = "scripted",
        port: int = 0,
        workers: int | None = None,
        experts: bool = False,
    ) -> None:
        """`text`: an old server without ids. `processed`: log-probs are those of what is sampled from. `experts`: it
        gives them, those of `experts_of`.
        `workers`: as it says; None: it does not."""
        self.form = form
        self.count = count
        self.fault = fault
        self.version = version
        self.bodies: list[JsonObject] = []
        """Bodies of the generations that were no start-up check."""
        self.generations = 0
        """With the start-up checks, of which there are two."""
        self.cut_off = 0
        """Answers whose client went away."""
        self.n_tokens: int | None = 0
        """Sampled so far, as `/metrics` counts them; None: it counts nothing."""
        self.paused: dict[str, str] = {}
        """The query of the last pause."""
        self._peers: set[Any] = set()
        self.well: Literal["yes", "no", "silent"] = "yes"
        """What `/health` says."""
        self.url = ""
        self._processed = processed
        self._max_model_len = max_model_len
        self._key = key
        self._chunk_delay_s = chunk_delay_s
        self._port = port
        self._model = model
        self._workers = workers
        self._experts = experts
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30, middlewares=[self._check_key])
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/weight_info", self._weight_info)
        app.router.add_get("/get_world_size", self._world_size)
        app.router.add_post("/pause", self._pause)
        app.router.add_post("/update_weight_version", self._update_version)
        app.router.add_post("/inference/v1/generate", self._generate)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def connections(self) -> int:
        """How many of them those generations came over."""
        return len(self._peers)

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if (
            self._key is not None
            and request.path not in ("/health", "/metrics")
            and request.headers.get("authorization") != f"Bearer {self._key}"
        ):
            return web.json_response({"error": "Unauthorized"}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _health(self, _request: web.Request) -> web.StreamResponse:
        if self.well == "silent":
            await asyncio.Event().wait()
        return web.Response(status=200 if self.well == "yes" else 503)

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        counted = "" if self.n_tokens is None else f'vllm:generation_tokens_total{{model_name="m"}} {self.n_tokens}\n'
        return web.Response(text=f"# HELP scripted\n{counted}")

    async def _models(self, _request: web.Request) -> web.StreamResponse:
        entry = {"id": self._model, "root": "/models/scripted", "max_model_len": self._max_model_len}
        return web.json_response({"object": "list", "data": [entry]})

    async def _weight_info(self, _request: web.Request) -> web.StreamResponse:
        if self.version is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response({"weight_version": self.version})

    async def _world_size(self, _request: web.Request) -> web.StreamResponse:
        if self._workers is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response({"world_size": self._workers})

    async def _pause(self, request: web.Request) -> web.StreamResponse:
        self.paused = dict(request.query)
        return web.json_response({"status": "paused"})

    async def _update_version(self, request: web.Request) -> web.StreamResponse:
        self.version = (await request.json())["new_version"]
        return web.json_response({"success": True})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        if self.form != "generate":
            return web.json_response({"error": {"message": "scale-out is off"}}, status=403)
        body = await request.json()
        return await self._answer(request, body, body["token_ids"], body["sampling_params"])

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return await self._answer(request, body, body["prompt"], body)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        """The last message once more."""
        body = await request.json()
        self.bodies.append(body)
        message = {"role": "assistant", "content": body["messages"][-1]["content"]}
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async def _answer(
        self, request: web.Request, body: JsonObject, prompt: list[int], params: JsonObject
    ) -> web.StreamResponse:
        nth, self.generations = self.generations, self.generations + 1
        allowed = params.get("allowed_token_ids")
        if not allowed:
            self.bodies.append(body)
            self._peers.add(request.transport and request.transport.get_extra_info("peername"))
        fault = self.fault(nth)
        if self._max_model_len is not None and len(prompt) >= self._max_model_len:
            said = f"Input length ({len(prompt)}) exceeds model's maximum context length ({self._max_model_len})."
            return web.json_response({"error": {"message": said, "code": 400}}, status=400)
        if fault == "hang":
            await asyncio.Event().wait()
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        if fault in ("500", "429"):
            headers = {"retry-after": "0.01"} if fault == "429" else {}
            return web.json_response({"error": {"message": "scripted"}}, status=int(fault), headers=headers)
        ids = allowed[:1] if allowed else sampled(prompt, self.count)
        limit = params.get("max_tokens") or self.count
        reason = "length" if limit < len(ids) or allowed else "stop"
        ids = ids[:limit]
        if self.n_tokens is not None:
            self.n_tokens += len(ids)
        try:
            if not body.get("stream"):
                await asyncio.sleep(self._chunk_delay_s * len(ids))
                choice = self._choice(ids, ids, reason, fault, certain=bool(allowed))
                choice |= self._routed(prompt, ids, params, fault)
                return web.json_response({"choices": [choice], "usage": USAGE})
            return await self._stream(request, ids, reason, fault, self._routed(prompt, ids, params, fault))
        except (asyncio.CancelledError, ConnectionError):
            self.cut_off += 1
            raise

    async def _stream(
        self, request: web.Request, ids: list[int], reason: str, fault: Fault | None, more: JsonObject
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        if fault == "abort_at_once":
            await response.write(_event({"choices": [self._choice([], [], "abort", None)]}))
            await response.write(b"data: [DONE]\n\n")
            return response
        middle = len(ids) // 2
        for nth, token in enumerate(ids):
            if nth == middle and fault in ("cut", "stall", "abort", "error_event", "garbage"):
                return await self._break(request, response, fault)
            last = nth == len(ids) - 1
            said = reason if last and fault != "no_reason" else None
            choice = self._choice([token], ids, said, fault if nth >= middle else None)
            choice |= more if last else {}
            await response.write(_event({"choices": [choice]}))
            await asyncio.sleep(self._chunk_delay_s)
        await response.write(_event({"choices": [], "usage": USAGE}))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _break(self, request: web.Request, response: web.StreamResponse, fault: Fault) -> web.StreamResponse:
        if fault == "stall":
            await asyncio.Event().wait()
        if fault == "cut" and request.transport is not None:
            request.transport.close()
        if fault == "abort":
            await response.write(_event({"choices": [self._choice([], [], "abort", None)]}))
        if fault == "error_event":
            await response.write(_event({"error": {"message": "Internal server error", "code": 500}}))
        if fault == "garbage":
            await response.write(b"data: {not json\n\n")
        return response

    def _routed(self, prompt: list[int], ids: list[int], params: JsonObject, fault: Fault | None) -> JsonObject:
        """As vLLM 0.32 writes them (`numpy2base64`): the bytes of a file of numpy's."""
        if not self._experts or self.form != "generate" or fault == "no_experts":
            return {}
        start = params.get("routed_experts_prompt_start", 0)
        rows = experts_of([*prompt, *ids])[start : -1 if fault == "short_experts" else None]
        file = io.BytesIO()
        np.save(file, rows, allow_pickle=False)
        return {"routed_experts": base64.b64encode(file.getvalue()).decode()}

    def _choice(
        self,
        ids: list[int],
        whole: list[int],
        reason: str | None,
        fault: Fault | None,
        *,
        certain: bool = False,
    ) -> JsonObject:
        values = [0.0 if certain and self._processed else log_prob(token) for token in ids]
        choice: JsonObject = {"index": 0, "finish_reason": reason, "token_ids": ids}
        if self.form == "generate":
            shift = 1 if fault == "other_token" else 0
            pairs = zip(ids, values, strict=True)
            entries = [{"token_id": token + shift, "logprob": value, "rank": 1} for token, value in pairs]
            choice["logprobs"] = {"content": entries}
            if reason is not None and self.version is not None:
                end = len(whole) - (1 if fault == "short_spans" else 0)
                choice["weight_versions"] = [{"version": self.version, "start": 0, "end": end}]
        else:
            choice |= {"text": "x", "logprobs": {"token_logprobs": values}}
        if fault == "no_log_probs":
            choice["logprobs"] = None
        if self.form == "text":
            del choice["token_ids"]
        return choice


def experts_of(ids: list[int]) -> "NDArray[np.uint8]":
    """`[tokens - 1, 2, 2]`: a token's place and its id in the first layer, the other way round in the second."""
    places = np.arange(len(ids) - 1)
    first = np.stack([places, np.array(ids[:-1])], axis=1)
    return np.stack([first, first[:, ::-1]], axis=1).astype(np.uint8)


def _event(data: Any) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(data)
