"""vLLM's raw generation route as SkyRL's client asks it, answering on cue."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from aiohttp import web

from paddock.testing.vocabularies import small_vocabulary
from paddock.types import JsonObject

FAILS = "fails"
HANGS = "hangs"


def log_prob(position: int, token: int) -> float:
    """Of each id another, so that a misplaced one shows."""
    return -(1 + position % 7) / 16 - token / 65536


class HttpEngine:
    """Listens in a thread. `answer` gives the text for the number of a call, `FAILS` or `HANGS`."""

    def __init__(self, answer: Callable[[int], str]) -> None:
        self.answer = answer
        self.calls: list[JsonObject] = []
        """Bodies of generations."""
        self.controls: list[str] = []
        """Other routes that were asked, in order."""
        self.url = ""
        self._vocabulary = small_vocabulary()
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait(30)

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_post("/inference/v1/generate", self._generate)
        app.router.add_post("/{route:.*}", self._control)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await asyncio.Event().wait()

    async def _control(self, request: web.Request) -> web.Response:
        self.controls.append(request.match_info["route"])
        return web.json_response({})

    async def _generate(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        number = len(self.calls)
        self.calls.append({**body, "session": request.headers.get("X-Session-ID")})
        text = self.answer(number)
        if text == HANGS:
            await asyncio.Event().wait()
        if text == FAILS:
            return web.json_response({"error": {"message": "scripted"}}, status=400)
        ids = [*self._vocabulary.encode(text), *self._vocabulary.encode("<|im_end|>")]
        entries = [{"logprob": log_prob(position, token)} for position, token in enumerate(ids)]
        choice: JsonObject = {"token_ids": ids, "finish_reason": "stop", "logprobs": None}
        if body["sampling_params"].get("logprobs") is not None:
            choice["logprobs"] = {"content": entries}
        return web.json_response({"choices": [choice]})
