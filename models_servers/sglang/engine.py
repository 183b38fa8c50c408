"""SGLang as an engine of ids: prompts in ids go in, sampled ids with their log-probs come out.

Law     that of `paddock.server.exact.functions`: an answer that SGLang ended so that weights could change is continued,
        and has a span for each version. Weights that changed without an end (`retract`) give spans, too.
Stream  as they are sampled where that is asked for; else in one answer, which costs both sides much less: a stream
        has the whole answer in each event, unless SGLang was started with `--incremental-streaming-output`.
Retry   a call is tried again, with waits that double and are spread at random, within its deadline and only while
        nothing has come; at the next server where a connection failed. What fails later is raised.
Bounds  one wall clock per answer, the call's deadline and `timeout_s`; `max_concurrency` answers at once. Closing
        the generator closes the connection, at which SGLang ends the sampling.
Errors  those of `paddock.server.upstream_failures`. InfraError `log_probs_of_model` where SGLang can't give the
        log-probs of what it samples from (see `log_probs` in the config). RequestError `sampling_invalid`.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from math import inf

import aiohttp
import orjson

from paddock.errors import InfraError
from paddock.http import Call
from paddock.http.transport import make_session
from paddock.models_servers.sglang.answers import ExpertsRequest, GenerateReader
from paddock.models_servers.sglang.checks import GENERATE, SglangTraits, find_traits, request_body
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.sampling import is_exact, sampling
from paddock.server.dialects import EventReader
from paddock.server.dialects.failures import UnreadableError
from paddock.server.engine_client import EngineClient
from paddock.server.exact.engine import ROUTED_EXPERTS_START, Chunk
from paddock.server.exact.functions import Completion, FunctionEngine
from paddock.server.upstream_exchange import retry_wait_s
from paddock.server.upstream_failures import UpstreamError, upstream_errors
from paddock.types import JsonObject

ROUTING_KEY = "X-SMG-Routing-Key"
END_WAIT_S = 1.0
"""Seconds that the end of the body is waited for, once the answer is whole."""


class SglangEngine:
    """The SGLang servers of one config, as `paddock.server.exact.engine.TokenEngine`."""

    def __init__(self, config: SglangConfig) -> None:
        self.traits: list[SglangTraits] = []
        """Of each server, once it has started."""
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._clients: list[EngineClient] = []
        self._slots = asyncio.Semaphore(config.max_concurrency)
        self._turn = count()

    async def start(self) -> None:
        config = self._config
        self._session = session = make_session(max_connections=config.max_concurrency + 64)
        self._clients = [EngineClient(session, url, config.key) for url in config.urls]
        self.traits = list(await asyncio.gather(*(find_traits(client, config) for client in self._clients)))

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def max_tokens(self) -> int | None:
        return min((traits.max_tokens for traits in self.traits), default=None)

    async def generate(
        self,
        prompt_ids: Sequence[int],
        params: JsonObject,
        call: Call,
        *,
        rollout: str | None,
        stream: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        experts = {name: value for name, value in params.items() if name == ROUTED_EXPERTS_START}
        params = sampling({name: value for name, value in params.items() if name not in experts})
        self._require_exact(params)
        call = call.within(self._config.timeout_s)
        engine = FunctionEngine(
            partial(self._ask, call=call, stream=stream),
            max_tokens=self.max_tokens,
            first_retry_s=self._config.first_retry_s,
        )
        async with (
            self._slots,
            aclosing(engine.generate(prompt_ids, {**params, **experts}, call, rollout=rollout)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def _ask(
        self, ids: list[int], params: JsonObject, *, rollout: str | None, call: Call, stream: bool
    ) -> AsyncGenerator[Completion, None]:
        """One answer of one server, however often it is asked until it begins one."""
        config = self._config
        number = next(self._turn) if rollout is None else int(rollout, 16)
        headers = {} if rollout is None else {ROUTING_KEY: rollout}
        start = params.pop(ROUTED_EXPERTS_START, None)
        experts = None if start is None else ExpertsRequest(start, config.experts_per_token)
        body = orjson.dumps(request_body(ids, params, experts, stream=stream))
        failures = 0
        while True:
            client = self._clients[number % len(self._clients)]
            answer = GenerateReader(client.host, len(ids), experts)
            has_sampled = False
            try:
                with upstream_errors(client.host, config.timeout_s):
                    async with aclosing(_completions(client, answer, body, headers, stream=stream)) as completions:
                        async for completion in completions:
                            has_sampled = True
                            yield completion
                return
            except UpstreamError as error:
                failures += 1
                wait_s = retry_wait_s(error, failures, first_s=config.first_retry_s, longest_s=config.max_retry_s)
                remaining_s = inf if call.remaining_s is None else call.remaining_s
                if has_sampled or failures >= config.attempts or remaining_s <= wait_s:
                    raise
                number += error.kind == "upstream_connection"
            await asyncio.sleep(wait_s)

    def _require_exact(self, params: JsonObject) -> None:
        with_temperature = all(traits.with_temperature for traits in self.traits)
        if self._config.log_probs == "any" or is_exact(params, with_temperature=with_temperature):
            return
        raise InfraError(
            "with these sampling parameters SGLang gives log-probs of another distribution than the one it samples "
            "from: sample without `top_p`, `top_k` and `min_p`"
            + ("" if with_temperature else ", at temperature 1")
            + ", or set `log_probs: any` where nothing is trained",
            kind="log_probs_of_model",
            stage="model",
            retryable=False,
        )


async def _completions(
    client: EngineClient, answer: GenerateReader, body: bytes, headers: Mapping[str, str], *, stream: bool
) -> AsyncGenerator[Completion, None]:
    """What one request brings. Called within `upstream_errors`."""
    if not stream:
        completion = answer.read(await client.whole(GENERATE, body, headers))
        if not answer.finished:
            raise UnreadableError("no finish reason", kind="upstream_no_finish_reason")
        yield completion
        return
    response = await client.stream(GENERATE, body, headers)
    events = EventReader()
    try:
        while not answer.finished and (data := await response.content.readany()):
            for event in events.feed(data):
                if event.data != b"[DONE]" and not answer.finished:
                    yield answer.read(_parsed(event.data))
        # The end of its body: only then the connection can be used again.
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(END_WAIT_S):
                await response.content.read()
    finally:
        response.release()  # closes the connection, which ends the sampling, unless all of it was read
    if not answer.finished:
        raise UnreadableError("the stream ended without a finish reason", kind="upstream_no_finish_reason")


def _parsed(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"no JSON: {error}") from error
