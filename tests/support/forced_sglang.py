"""A real SGLang that is made to say what a policy says, and a relay before it that logs what it was asked and sampled.

Source  SGLang, `srt/sampling/custom_logit_processor.py`: the next id of the answer gets the highest logit by a little,
        and is sampled at temperature 0. So ids, log-probs and ends are SGLang's own.
Needs   a server with `--enable-custom-logit-processor`; answers that are not streamed.
"""

import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import aiohttp
from aiohttp import web
from tests.support.real_sglang import environment

from paddock.http import Call
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.server.exact.engine import Chunk
from paddock.testing.engines import EngineCall, SampledAnswer
from paddock.types import JsonObject

SCRIPT = """
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
class ForcedTokens(CustomLogitProcessor):
    def __call__(self, logits, custom_param_list=None):
        for row, given in enumerate(custom_param_list or ()):
            done, ids = len(given["__req__"].output_ids), given["ids"]
            if done < len(ids):
                logits[row, ids[done]] = logits[row].max() + 0.5
        return logits
print(ForcedTokens.to_str())
"""
"""What SGLang's interpreter makes its text of the processor with: a class of `__main__` goes by value."""


class ForcedSglang:
    """SGLang as a logged engine of the fidelity bench."""

    def __init__(self, url: str, model: str, processor: str, policy: Callable[[list[int]], SampledAnswer]) -> None:
        self.calls: list[EngineCall] = []
        self._url = url
        self._model = model
        self._processor = processor
        self._policy = policy
        self._engine: SglangEngine | None = None
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._engine = SglangEngine(SglangConfig(model=self._model, base_url=url, attempts=1))
        await self._engine.start()

    async def stop(self) -> None:
        assert self._engine is not None
        assert self._runner is not None
        assert self._session is not None
        await self._engine.stop()
        await self._runner.cleanup()
        await self._session.close()

    @property
    def max_tokens(self) -> int | None:
        return self._engine.max_tokens if self._engine else None

    def generate(
        self, prompt_ids: Sequence[int], params: JsonObject, call: Call, *, rollout: str | None, stream: bool = True
    ) -> AsyncGenerator[Chunk, None]:
        assert self._engine is not None
        return self._engine.generate(prompt_ids, params, call, rollout=rollout, stream=False)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] | None = await request.json() if request.method == "POST" else None
        forced = body is not None and "top_logprobs_num" not in body
        if body is not None and forced:
            answer = self._policy(body["input_ids"])
            limit = {"max_new_tokens": len(answer.ids)} if answer.finish_reason == "length" else {}
            body["sampling_params"] |= {"temperature": 0.0, "custom_params": {"ids": answer.ids}, **limit}
            body["custom_logit_processor"] = self._processor
        assert self._session is not None
        async with self._session.request(request.method, self._url + request.path, json=body) as given:
            reply = await given.json()
            if body is not None and forced and given.status == 200:
                pairs = reply["meta_info"]["output_token_logprobs"]
                ids, log_probs = [pair[1] for pair in pairs], [pair[0] for pair in pairs]
                self.calls.append(EngineCall(body["input_ids"], ids, body["sampling_params"], log_probs))
            return web.json_response(reply, status=given.status)


def processor_text(python: str) -> str:
    """The processor, as SGLang takes it."""
    done = subprocess.run([python, "-c", SCRIPT], capture_output=True, text=True, timeout=200, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
