"""A teacher's server by script: it tokenises by a vocabulary, and answers as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from paddock.tokens.vocabulary import Vocabulary

TeacherAnswer = Callable[[list[int]], Any]


def scores(ids: list[int]) -> Any:
    """As vLLM gives them: minus a hundredth of each id."""
    entries = [{str(one): {"logprob": -one / 100, "rank": 1}} for one in ids]
    return {"choices": [{"prompt_logprobs": [None, *entries[1:]]}]}


class ScriptedTeacher:
    """Tokenises by a vocabulary, and answers as it is told: the last of `answers` again and again."""

    def __init__(
        self,
        known: Vocabulary,
        *answers: TeacherAnswer,
        tokens: Callable[[str], Any] | None = None,
        probe: TeacherAnswer = scores,
        seconds: float = 0.01,
    ) -> None:
        """`tokens`: what /tokenize answers; None: as the vocabulary has it. `probe`: the first answer of all, whose
        body is not recorded. `seconds`: until any other answer."""
        self._probe: TeacherAnswer | None = probe
        self._tokens = tokens or known.encode
        self._answers = list(answers)
        self._seconds = seconds
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self.busiest = self._busy = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/v1/completions", self._complete)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["add_special_tokens"] is False
        return web.json_response({"tokens": self._tokens(body["prompt"])})

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        if (probe := self._probe) is not None:
            self._probe = None
            return _reply(probe(body["prompt"]))
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self._busy += 1
        self.busiest = max(self.busiest, self._busy)
        await asyncio.sleep(self._seconds)
        self._busy -= 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return _reply(answer(body["prompt"]))


def _reply(answer: Any) -> web.Response:
    return web.Response(status=answer) if isinstance(answer, int) else web.json_response(answer)
