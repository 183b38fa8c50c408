"""vLLM as an engine of ids: prompts in ids go in, sampled ids with their log-probs come out.

Stream  as they are sampled where that is asked for; else in one answer, which costs both sides much less.
Retry   a call is tried again, with waits that double and are spread at random, within its deadline and only while
        nothing has come; on another replica where its own has died. What fails later is raised.
Bounds  one wall clock per try, the call's deadline and `timeout_s`; `max_concurrency` answers at once. Closing the
        generator closes the connection, at which vLLM ends the sampling.
Ids     checked chunk by chunk (see `chunks`); the weights' version is found as `traits` says, or unknown.
Errors  those of `paddock.server.upstream_failures`: `abort` at vLLM is `upstream_failed`. InfraError
        `log_probs_of_model` where a server can't give the log-probs of what it samples from (see `log_probs` in the
        config), and those of `replicas`. RequestError `context_length_exceeded`, before anything is sent where the
        length is known; `sampling_invalid`.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from math import inf
from typing import NamedTuple

import aiohttp
import orjson

from paddock.errors import InfraError
from paddock.http import Call
from paddock.models_servers.vllm.chunks import ChunkReader, ExpertRange, read_whole
from paddock.models_servers.vllm.client import VllmClient
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.replica import Replica, ReplicaCall
from paddock.models_servers.vllm.replicas import Replicas
from paddock.models_servers.vllm.sampling import is_plain, sampling
from paddock.models_servers.vllm.shared_replicas import SharedReplicas
from paddock.models_servers.vllm.traits import PATHS, request_body, weight_version
from paddock.server.dialects import EventReader
from paddock.server.exact.engine import ROUTED_EXPERTS_START, Chunk
from paddock.server.upstream_exchange import retry_wait_s
from paddock.server.upstream_failures import RefusedError, UpstreamError, upstream_errors
from paddock.types import JsonObject, WeightSpan

END_WAIT_S = 1.0
"""Seconds that the end of the body is waited for, once the answer is whole."""


class _Request(NamedTuple):
    prompt_ids: Sequence[int]
    params: JsonObject
    stream: bool
    experts: ExpertRange | None


class VllmEngine:
    """The vLLM servers of one config, as `paddock.server.exact.engine.TokenEngine`."""

    def __init__(self, config: VllmConfig, *, name: str) -> None:
        self.replicas = (Replicas if config.engines_of is None else SharedReplicas)(config, name=name)
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
        self,
        prompt_ids: Sequence[int],
        params: JsonObject,
        call: Call,
        *,
        rollout: str | None,
        stream: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        start = params.get(ROUTED_EXPERTS_START)
        experts = None if start is None else ExpertRange(start, len(prompt_ids))
        params = {name: value for name, value in params.items() if name != ROUTED_EXPERTS_START}
        params = sampling(params, self._room(len(prompt_ids)))
        request = _Request(prompt_ids, params, stream, experts)
        call = call.within(self._config.timeout_s)
        failures = 0
        while True:
            replica = await self.replicas.choose(rollout, _remaining_s(call))
            self._require_exact(replica, params)
            has_sampled = False
            try:
                async with self._slots, aclosing(self._sample(replica, request, call)) as chunks:
                    async for chunk in chunks:
                        has_sampled = True
                        yield chunk
                return
            except UpstreamError as error:
                if error.kind == "upstream_connection":
                    replica.suspect()
                failures += 1
                wait_s = self._wait_s(error, failures)
                if has_sampled or failures >= self._config.attempts or _remaining_s(call) <= wait_s:
                    raise
            await asyncio.sleep(wait_s)

    async def _sample(self, replica: Replica, request: _Request, call: Call) -> AsyncGenerator[Chunk, None]:
        """The chunks of one attempt on one replica."""
        traits, client, limit_s = replica.traits, replica.client, _remaining_s(call)
        count = 0
        with upstream_errors(client.host, limit_s), replica.call(_now() + limit_s) as replica_call:
            before = await weight_version(client, limit_s) if traits.versions == "asked" else None
            call_body = request_body(
                traits.form,
                traits.model,
                request.prompt_ids,
                request.params,
                stream=request.stream,
                experts=request.experts,
            )
            path, body = PATHS[traits.form], orjson.dumps(call_body)
            if not request.stream:
                body_read = await replica_call.wait(client.whole(path, body))
                answer = _with_experts_asked(read_whole(traits.form, body_read, request.experts), request, client)
                yield await self._with_version(answer, client, before, len(answer.ids))
                return
            reader = ChunkReader(traits.form, request.experts)
            stream = _ChunkStream(await replica_call.wait(client.stream(path, body)), reader, replica_call)
            try:
                while (chunk := await stream.next()) is not None:
                    count += len(chunk.ids)
                    chunk = _with_experts_asked(chunk, request, client)
                    yield await self._with_version(chunk, client, before, count)
            finally:
                stream.close()

    async def _with_version(self, chunk: Chunk, client: VllmClient, before: str | None, count: int) -> Chunk:
        """The chunk; the last of an answer of `count` ids has a version, where that was `before` and still is."""
        if before is None or chunk.finish_reason is None:
            return chunk
        after = await weight_version(client, self._config.health_timeout_s)
        return chunk._replace(versions=(WeightSpan(version=before, start=0, end=count),)) if before == after else chunk

    def _room(self, prompt: int) -> int | None:
        """How many tokens an answer may have behind `prompt` tokens; None: unknown."""
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

    def _require_exact(self, replica: Replica, params: JsonObject) -> None:
        if self._config.log_probs == "any" or replica.traits.log_probs == "sampled" or is_plain(params):
            return
        raise InfraError(
            f"{replica.name}: with these sampling parameters it gives log-probs of another distribution than the one "
            "it samples from: start vLLM with `--logprobs-mode processed_logprobs`, sample at temperature 1 without "
            "cut-offs and penalties, or set `log_probs: any` where nothing is trained",
            kind="log_probs_of_model",
            stage="model",
            retryable=False,
        )

    def _wait_s(self, failure: UpstreamError, failures: int) -> float:
        config = self._config
        return retry_wait_s(failure, failures, first_s=config.first_retry_s, longest_s=config.max_retry_s)


class _ChunkStream:
    """The chunks of a stream: those that came at once are joined, the last one comes when nothing is missing."""

    def __init__(self, response: aiohttp.ClientResponse, reader: ChunkReader, replica_call: ReplicaCall) -> None:
        self._response = response
        self._replica_call = replica_call
        self._reader = reader
        self._events = EventReader()

    async def next(self) -> Chunk | None:
        reader = self._reader
        while not reader.complete:
            data = await self._more()
            chunks = [reader.read(event.data) for event in self._events.feed(data)] if data else [reader.end()]
            if chunk := _join_chunks([chunk for chunk in chunks if chunk is not None]):
                return chunk
        if not self._response.content.at_eof():
            await self._more()  # the end of its body: only then the connection can be used again
        return None

    async def _more(self) -> bytes:
        """The next bytes; empty at the stream's end."""
        if not self._reader.finished:
            return await self._replica_call.wait(self._response.content.readany())
        try:
            return await self._replica_call.wait(self._response.content.readany(), END_WAIT_S)
        except (aiohttp.ClientError, TimeoutError, UpstreamError):
            return b""  # the answer is whole; only the connection is lost

    def close(self) -> None:
        """Close the connection, which ends the sampling, unless all of the answer was read."""
        self._response.release()


def _with_experts_asked(chunk: Chunk, request: _Request, client: VllmClient) -> Chunk:
    """The chunk; InfraError for the last of an answer that lacks the experts which were asked for."""
    if request.experts is not None and chunk.finish_reason is not None and chunk.routed_experts is None:
        raise InfraError(
            f"{client.host}: gave no routed experts", kind="routed_experts_missing", stage="model", retryable=False
        )
    return chunk


def _join_chunks(chunks: list[Chunk]) -> Chunk | None:
    if len(chunks) < 2:
        return chunks[0] if chunks else None
    ids = [token_id for chunk in chunks for token_id in chunk.ids]
    log_probs = [value for chunk in chunks for value in chunk.log_probs]
    return chunks[-1]._replace(ids=ids, log_probs=log_probs)


def _remaining_s(call: Call) -> float:
    remaining = call.remaining_s
    return inf if remaining is None else remaining


def _now() -> float:
    return asyncio.get_running_loop().time()
