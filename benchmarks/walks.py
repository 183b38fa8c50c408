"""How much code one unit of work passes: files and functions of the product, counted by the interpreter's profile hook.

Chat    a warm call of `/v1/chat/completions` without tools at an exact server over HTTP, not streamed, on a scripted
        engine; the client's side and the engine are not counted.
Row     a pivot row with `--oracle`, from the start of its attempt to its stored verdict.
Bounds  `MOST`, which a test holds.
Source  functions are code objects that were entered, comprehensions and lambdas among them; each counts once.
"""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

import paddock
from paddock.cli import main
from paddock.collect.attempts import Attempts
from paddock.collect.journal import Journal
from paddock.http.transport import make_client
from paddock.server.access import Access
from paddock.server.exact.parsers.plain import PlainParser
from paddock.server.lifecycle import serve_http, start_servers
from paddock.server.sockets import LOOPBACK, Address, bind
from paddock.testing.engines import scripted_server
from paddock.types import JsonObject

PRODUCT = f"{Path(paddock.__file__).resolve().parents[2]}/"
NOT_COUNTED = ("benchmarks/", "src/paddock/testing/", "src/paddock/http/transport.py")
"""Clients, engines."""
MOST = {"chat": {"files": 20, "functions": 110}, "row": {"files": 35}}
WARM_ROWS = 20
SECRET = "ro_walk"


class CallTrace:
    """Code that was entered while it counts, in all threads."""

    def __init__(self) -> None:
        self.counts = False
        self._codes: set[CodeType] = set()

    @contextmanager
    def profiled(self) -> Iterator[None]:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def figures(self) -> dict[str, Any]:
        traced = [code for code in self._codes if _is_counted(code)]
        files = sorted({_name(code) for code in traced})
        return {"files": len(files), "functions": len(traced), "names": " ".join(files)}

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self.counts and event == "call":
            self._codes.add(frame.f_code)


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {"chat": asyncio.run(_chat(Path(folder) / "turns")), "row": _row(Path(folder) / "run")}


async def _chat(folder: Path) -> dict[str, Any]:
    walk = CallTrace()
    server = scripted_server(folder, lambda prompt: "Yes.", parser=PlainParser)
    at = bind(server.name, Address(LOOPBACK, 0))
    with walk.profiled():
        async with (
            start_servers([server], start_timeout_s=30, stop_timeout_s=2),
            serve_http({server.name: server}, {server.name: at}, access=Access(None), stop_timeout_s=2),
            make_client() as client,
        ):
            history: list[JsonObject] = []
            for turn in range(4):
                history.append({"role": "user", "content": f"And {turn}?"})
                walk.counts = turn == 3
                reply = await _ask(client, at.url, history)
                walk.counts = False
                history.append(reply["choices"][0]["message"])
    at.sock.close()
    return walk.figures()


async def _ask(client: httpx.AsyncClient, url: str, history: list[JsonObject]) -> JsonObject:
    body = {"model": "m", "messages": history}
    reply = await client.post(f"{url}/r/{SECRET}/v1/chat/completions", json=body)
    reply_body: JsonObject = reply.raise_for_status().json()
    return reply_body


def _row(out: Path) -> dict[str, Any]:
    walk = CallTrace()
    rows = 0

    def begins(attempt: Callable[..., Any]) -> Callable[..., Any]:
        async def traced(*args: Any) -> Any:
            nonlocal rows
            rows += 1
            walk.counts = rows == WARM_ROWS
            return await attempt(*args)

        return traced

    def ends(stored: Callable[..., Any]) -> Callable[..., Any]:
        async def traced(*args: Any) -> Any:
            result = await stored(*args)
            walk.counts = False
            return result

        return traced

    attempt, stored = Attempts._attempt, Journal.rollout
    words = [
        "eval",
        "configs/demo.yaml",
        "--oracle",
        "--concurrency",
        "1",
        "--limit",
        str(WARM_ROWS),
        "--out",
        str(out),
    ]
    Attempts._attempt, Journal.rollout = begins(attempt), ends(stored)  # type: ignore[method-assign]
    try:
        with walk.profiled(), redirect_stdout(StringIO()):
            code = main([*words, "--out", str(out)])
    finally:
        Attempts._attempt, Journal.rollout = attempt, stored  # type: ignore[method-assign]
    assert code == 0
    return walk.figures()


def _name(code: CodeType) -> str:
    """The name of its file: within the product without its folder; `<...>` where there is none."""
    name = code.co_filename
    return name if name.startswith("<") else str(Path(name).resolve()).removeprefix(PRODUCT)


def _is_counted(code: CodeType) -> bool:
    name = _name(code)
    return not name.startswith(("/", ".venv/", "<", *NOT_COUNTED))
