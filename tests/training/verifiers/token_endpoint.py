"""vLLM's raw generation route as a `train` client asks it, answering each prompt by itself."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from paddock.testing.vocabularies import small_vocabulary
from paddock.types import JsonObject

FAILS = "fails"


def log_prob(position: int, token: int) -> float:
    """Of each id another, so that a misplaced one shows; exact in four decimals, as verifiers writes them."""
    return -(1 + position % 7 + 8 * (token % 5)) / 16


class TokenEndpoint:
    """Listens while it is open. `answer` gives the text for a prompt's, or `FAILS`, `delay_s` later."""

    def __init__(self, answer: Callable[[str], str], delay_s: float = 0.0) -> None:
        self.bodies: list[JsonObject] = []
        self.sessions: set[str | None] = set()
        self.most_at_once = 0
        """Calls that were under way at the same time."""
        self.url = ""
        self._running = 0
        self._delay_s = delay_s
        self._answer = answer
        self._vocabulary = small_vocabulary()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/inference/v1/generate", self._generate)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _generate(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self.bodies.append(body)
        self.sessions.add(request.headers.get("X-Session-ID"))
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self._running -= 1
        text = self._answer(self._vocabulary.decode(body["token_ids"]))
        if text == FAILS:
            return web.json_response({"error": {"message": "scripted"}}, status=400)
        ids = [*self._vocabulary.encode(text), *self._vocabulary.encode("<|im_end|>")]
        content = [
            {"token": f"token_id:{token}", "logprob": log_prob(position, token)} for position, token in enumerate(ids)
        ]
        choice = {"token_ids": ids, "logprobs": {"content": content}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})
