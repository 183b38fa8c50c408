"""A pass-through in front of a vLLM server that writes down what went in and what came out, token by token.

    async with WireLog("http://127.0.0.1:8000", log=Path("calls.jsonl")) as wire:
        ... wire.url

Law     bytes pass in both directions as they are. A generation is one line of the log, written when its answer has
        ended in whatever way; the answer is read here, by nothing that the servers read it with.
Command `python -P wire_log.py LOG COMMAND... --port PORT ...` starts the command on another port and is in
        its place on PORT: a launched vLLM can so be listened to. The command's own URL is in LOG.url. It ends when the
        command does.
Errors  502 while nothing answers behind it.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
from aiohttp import web

from paddock.ports import free_port

GENERATE = "/inference/v1/generate"
HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


class WireCall(NamedTuple):
    """One generation, as it went over the wire."""

    prompt_ids: list[int]
    sampled_ids: list[int]
    log_probs: list[float]
    of_ids: list[int]
    """The id that each log-prob is of, as the answer says."""
    finish_reason: str | None
    """None: it did not end by itself."""
    versions: list[Any]
    """As the answer says them."""
    stream: bool
    sampling: dict[str, Any]


class WireLog:
    """Listens while it is open; `log` grows by what passes."""

    def __init__(self, upstream: str, *, log: Path, port: int = 0) -> None:
        self.url = ""
        self._upstream = upstream
        self._log = log
        self._port = port
        self._runner: web.AppRunner | None = None
        self._client: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._client = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._client is not None:
            await self._client.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert self._client is not None
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        seen: list[bytes] = []
        try:
            async with self._client.request(
                request.method, self._upstream + request.path_qs, data=body, headers=headers
            ) as answer:
                told = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
                response = web.StreamResponse(status=answer.status, headers=told)
                await response.prepare(request)
                async for data in answer.content.iter_any():
                    seen.append(data)
                    await response.write(data)
                await response.write_eof()
                return response
        except aiohttp.ClientConnectionError as error:
            return web.Response(status=502, text=str(error))
        finally:
            if request.path == GENERATE:
                self._note(body, b"".join(seen))

    def _note(self, body: bytes, answer: bytes) -> None:
        call = read_call(json.loads(body), answer)
        with self._log.open("a") as log:
            log.write(json.dumps(call._asdict()) + "\n")


def read_calls(log: Path) -> list[WireCall]:
    """All that were written down."""
    return [WireCall(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def url_file(log: Path) -> Path:
    """Where the command tells the URL of what it started."""
    return log.with_name(f"{log.name}.url")


def read_call(body: dict[str, Any], answer: bytes) -> WireCall:
    """A request and the bytes of its answer, streamed or whole; what is no choice is not looked at."""
    ids: list[int] = []
    log_probs: list[float] = []
    of_ids: list[int] = []
    reason: str | None = None
    versions: list[Any] = []
    for choice in _choices(answer, stream=bool(body.get("stream"))):
        ids += choice.get("token_ids") or []
        for entry in (choice.get("logprobs") or {}).get("content") or []:
            log_probs.append(entry["logprob"])
            of_ids.append(entry["token_id"])
        reason = choice.get("finish_reason") or reason
        versions = choice.get("weight_versions") or versions
    sampling = body["sampling_params"]
    return WireCall(body["token_ids"], ids, log_probs, of_ids, reason, versions, bool(body.get("stream")), sampling)


def _choices(answer: bytes, *, stream: bool) -> Iterable[dict[str, Any]]:
    texts = answer.split(b"\n") if stream else [answer]
    for text in texts:
        if stream:
            mark, _, text = text.partition(b":")
            if mark != b"data":
                continue
        with contextlib.suppress(json.JSONDecodeError):
            found = json.loads(text)
            yield from found.get("choices") or []


async def _in_place_of(log: Path, command: Sequence[str]) -> int:
    words = list(command)
    at = words.index("--port") + 1
    port, words[at] = int(words[at]), str(free_port())
    upstream = f"http://127.0.0.1:{words[at]}"
    url_file(log).write_text(upstream)
    process = await asyncio.create_subprocess_exec(*words)
    async with WireLog(upstream, log=log, port=port):
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(_in_place_of(Path(sys.argv[1]), sys.argv[2:])))
