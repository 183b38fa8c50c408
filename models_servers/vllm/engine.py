"""vLLM as an engine of ids: prompts in ids go in, sampled ids with their log-probs come out as they are sampled.

Retry   a call is tried again, with waits that double and are spread at random, within its deadline and only while
        nothing was sampled; on another replica where its own has died. What fails later is raised.
Bounds  one wall clock per try, the call's deadline and `timeout_s`; `max_concurrency` answers at once. Closing the
        generator closes the connection, at which vLLM ends the sampling.
Ids     checked chunk by chunk (see `reading`); the weights' version is told as `traits` says, or unknown.
Errors  those of `paddock.server.upstream_failures`: `abort` at vLLM is `upstream_failed`. InfraError
        `log_probs_of_model` where a server can't give the log-probs of what it samples from (see `log_probs` in the
        config), and those of `replicas`. RequestError `context_length_exceeded`, before anything is sent where the
        length is known; `sampling_invalid`.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import httpx
import orjson

from paddock.errors import InfraError
from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.reading import ChunkReader
from paddock.models_servers.vllm.replica import Replica
from paddock.models_servers.vllm.replicas import Replicas
from paddock.models_servers.vllm.sampling import is_plain, sampling
from paddock.models_servers.vllm.traits import PATHS, request_body, weight_version
from paddock.server.dialects import EventReader
from paddock.server.exact.engine import Chunk
from paddock.server.upstream_failures import RefusedError, UpstreamError, attributed
from paddock.types import JsonObject, WeightSpan

END_WAIT_S = 1.0
"""How long a stream is waited for to end after the finish reason, so that its connection can be used again."""


class VllmEngine:
    """The vLLM servers of one config, as `paddock.server.exact.engine.TokenEngine`."""

    def __init__(self, config: VllmConfig, *, name: str) -> None:
        self.replicas = Replicas(config, name=name)
        self._config = config
        self._slots = asyncio.Semaphore(config.max_concurrency)

    async def start(self) -> None:
        await self.replicas.start()

    async def stop(self) -> None:
        await self.replicas.stop()

    @property
    def max_tokens(self) -> int | None:
        return self.replicas.max_tokens

    async def generate(
        self, prompt_ids: Sequence[int], params: JsonObject, call: Call, *, rollout: str | None
    ) -> AsyncGenerator[Chunk, None]:
        sampled = sampling(params, self._room(len(prompt_ids)))
        call = call.within(self._config.timeout_s)
        failed = 0
        while True:
            replica = await self.replicas.choose(rollout, _left_s(call))
            self._require_exact(replica, sampled)
            begun = False
            try:
                async with self._slots, aclosing(self._sample(replica, list(prompt_ids), sampled, call)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                return
            except UpstreamError as error:
                if error.kind == "upstream_connection":
                    replica.suspect()
                failed += 1
                wait_s = self._wait_s(error, failed)
                if begun or failed >= self._config.attempts or _left_s(call) <= wait_s:
                    raise
            await asyncio.sleep(wait_s)

    async def _sample(
        self, replica: Replica, prompt_ids: list[int], sampled: JsonObject, call: Call
    ) -> AsyncGenerator[Chunk, None]:
        """One try."""
        traits, endpoint, limit_s = replica.traits, replica.endpoint, _left_s(call)
        due = asyncio.get_running_loop().time() + limit_s
        asked = traits.versions == "asked"
        with replica.use():
            before = await weight_version(endpoint, limit_s) if asked else None
            body = orjson.dumps(request_body(traits.form, traits.model, prompt_ids, sampled, stream=True))
            reader = ChunkReader(traits.form)
            exchange = endpoint.streaming(PATHS[traits.form], body, due, limit_s, replica.watched)
            async with exchange as response, aclosing(_chunks(replica, response, reader, due, limit_s)) as chunks:
                async for chunk in chunks:
                    if asked and chunk.finish_reason is not None:
                        after = await weight_version(endpoint, self._config.health_timeout_s)
                        if before == after and before is not None:
                            chunk = chunk._replace(versions=(WeightSpan(version=before, start=0, end=reader.count),))
                    yield chunk

    def _room(self, prompt: int) -> int | None:
        """Tokens that an answer may have."""
        longest = self.max_tokens
        if longest is None:
            return None
        if prompt >= longest:
            raise RefusedError(
                f"the prompt has {prompt} tokens, the model's maximum context length is {longest}",
                kind="context_length_exceeded",
                stage="model",
            )
        return longest - prompt

    def _require_exact(self, replica: Replica, sampled: JsonObject) -> None:
        if self._config.log_probs == "any" or replica.traits.log_probs == "sampled" or is_plain(sampled):
            return
        raise InfraError(
            f"{replica.name}: with these sampling parameters it gives log-probs of another distribution than the one "
            "it samples from: start vLLM with `--logprobs-mode processed_logprobs`, sample at temperature 1 without "
            "cut-offs and penalties, or set `log_probs: any` where nothing is trained",
            kind="log_probs_of_model",
            stage="model",
            retryable=False,
        )

    def _wait_s(self, failure: UpstreamError, failed: int) -> float:
        longest = min(self._config.max_retry_s, self._config.first_retry_s * 2.0 ** (failed - 1))
        return max(longest * random.uniform(0.5, 1.0), min(failure.retry_after_s, self._config.max_retry_s))


async def _chunks(
    replica: Replica, response: httpx.Response, reader: ChunkReader, due: float, limit_s: float
) -> AsyncGenerator[Chunk, None]:
    """Those of one stream, all of which came at once joined; the last when nothing is missing."""
    host = replica.endpoint.host
    events, stream = EventReader(), response.aiter_bytes()
    while not reader.complete:
        clock = asyncio.timeout_at(due if not reader.finished else min(due, _now() + END_WAIT_S))
        data: bytes | None = None
        try:
            with attributed(host, limit_s), replica.watched(clock):
                async with clock:
                    data = await anext(stream, None)
        except UpstreamError:
            if not reader.finished:
                raise  # else the answer is whole; only the connection is lost
        with attributed(host, limit_s):
            found = [reader.read(event.data) for event in events.feed(data)] if data is not None else [reader.end()]
        if chunk := _joined([one for one in found if one is not None]):
            yield chunk
    await _drain(stream)


def _joined(chunks: list[Chunk]) -> Chunk | None:
    if len(chunks) < 2:
        return chunks[0] if chunks else None
    ids = [one for chunk in chunks for one in chunk.ids]
    log_probs = [value for chunk in chunks for value in chunk.log_probs]
    return chunks[-1]._replace(ids=ids, log_probs=log_probs)


async def _drain(stream: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(END_WAIT_S):
            async for _ in stream:
                pass
    except (TimeoutError, httpx.HTTPError):
        return  # only the connection is lost


def _left_s(call: Call) -> float:
    left = call.remaining_s
    return float("inf") if left is None else left


def _now() -> float:
    return asyncio.get_running_loop().time()
