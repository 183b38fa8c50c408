"""An engine that is an asynchronous function: how a trainer's own engine samples for an exact model server.

Form    `await function(ids, sampling, rollout=KEY)` gives a `Completion`; or `function(...)` is an asynchronous
        generator of completions, each with what was sampled since the one before, the last with a finish reason.
        `ids`: the prompt, a list of token ids. `sampling`: parameters under the names of the Chat API, `max_tokens`
        among them where the answer has a bound. KEY is one text for all calls of a rollout: engines with a prefix cache
        route by it.
Abort   a completion with `abort` was ended so that weights could change: the function is called again with what it had
        sampled at the end of its prompt, until there is another reason. The turn has a span for each version.
Experts where the server's `routed_experts` is set, `sampling` has `routed_experts_start`: the position in `ids` from
        which rows are wanted. The last completion of a call has `routed_experts` from there, or from an earlier token,
        up to the last but one that the call sampled. An aborted one may be without: then those of the next call count.
Ends    the stop token that ended an answer is among its ids, so there is at least one. Closing the engine's generator,
        or a call's deadline, cancels the function.
Errors  InfraError, stage `model`: `engine_failed` for what the function raises, `upstream_unreadable` for a completion
        that is none, `upstream_empty` for an answer without ids, `upstream_timeout` past the call's deadline.
        `routed_experts_missing` for an answer without the experts that were asked for. ConfigError `function_unknown`,
        `function_invalid`.
"""

import asyncio
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from importlib import import_module
from itertools import count
from math import isfinite
from operator import index
from typing import Any, Literal, NamedTuple, Protocol, cast

from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.http import Call
from paddock.server.exact.engine import ROUTED_EXPERTS_START, Chunk
from paddock.types import JsonObject, RoutedExperts, WeightSpan

LONGEST_RETRY_S = 2.0
"""Longest wait before an aborted answer is continued; see `first_retry_s`."""
REGISTERED = "registered:"
_functions: dict[str, "EngineFunction"] = {}
_numbers = count()


class Completion(NamedTuple):
    """What an engine sampled; of a stream, since the completion before."""

    ids: Sequence[int]
    log_probs: Sequence[float]
    """Of the distribution that was sampled from, one for each id."""
    finish_reason: Literal["stop", "length", "abort"] | None = "stop"
    """None: more is to come, in a stream."""
    weight_version: str | int | None = None
    """The weights that sampled it; None: those that the trainer announced, where they did not change meanwhile."""
    weight_versions: Sequence[WeightSpan] = ()
    """In place of `weight_version`, with the last completion of a call: spans over all that the call sampled."""
    cached_tokens: int = 0
    """Of the prompt, read from a prefix cache; with the last completion of a call."""
    routed_experts: RoutedExperts | None = None
    """With the last completion of a call, where `sampling` asks for them."""


class EngineFunction(Protocol):
    """Samples from ids; see above."""

    def __call__(
        self, ids: list[int], sampling: JsonObject, *, rollout: str | None
    ) -> Awaitable[Completion] | AsyncIterator[Completion]: ...


class Registration:
    """A function that configs of this process may name, until it is closed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def close(self) -> None:
        _functions.pop(self.name, None)


def registered(function: EngineFunction) -> Registration:
    """Give a function a name for `function: NAME` in a config of this process."""
    name = f"{REGISTERED}{next(_numbers)}"
    _functions[name] = function
    return Registration(name)


def require_callable(function: EngineFunction) -> None:
    """ConfigError for what can't be called as an engine function is."""
    name = getattr(function, "__qualname__", type(function).__name__)
    if not callable(function):
        raise ConfigError(f"engine: {name} is no function", kind="function_invalid")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # it does not say
    try:
        signature.bind([], {}, rollout=None)
    except TypeError as error:
        raise ConfigError(
            f"engine: {name}{signature} is called as `await {name}(ids, sampling, rollout=KEY)`: {error}",
            kind="function_invalid",
        ) from error


def find_function(name: str) -> EngineFunction:
    """The function of a name: one that was registered, or `package.module:attribute`."""
    if name.startswith(REGISTERED):
        if name not in _functions:
            raise ConfigError(
                f"function: {name} is not registered in this process: it was closed, or is another process's",
                kind="function_unknown",
            )
        return _functions[name]
    module, colon, attribute = name.partition(":")
    try:
        if not colon:
            raise ValueError("needs `package.module:attribute`")
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"function: {name}: {error}", kind="function_unknown") from error
    if not callable(found):
        raise ConfigError(f"function: {name} is no function", kind="function_unknown")
    return cast(EngineFunction, found)


def bound_to_loop(function: EngineFunction, loop: asyncio.AbstractEventLoop | None) -> EngineFunction:
    """The function, called in `loop` from whichever loop calls it; None: in the caller's."""
    if loop is None:
        return function

    async def call(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> AsyncIterator[Completion]:
        if asyncio.get_running_loop() is loop:
            async for completion in _completions(function(ids, sampling, rollout=rollout)):
                yield completion
            return
        here: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Completion | None] = asyncio.Queue()

        async def pump() -> None:
            async with aclosing(_completions(function(ids, sampling, rollout=rollout))) as completions:
                async for completion in completions:
                    here.call_soon_threadsafe(arrived.put_nowait, completion)

        future = asyncio.run_coroutine_threadsafe(pump(), loop)
        ended = asyncio.wrap_future(future)
        ended.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (piece := await arrived.get()) is not None:
                yield piece
            await ended
        finally:
            ended.cancel()
            await asyncio.wait([ended])

    return call


class FunctionEngine:
    """An engine function as `paddock.server.exact.TokenEngine`."""

    def __init__(
        self,
        function: EngineFunction,
        *,
        max_tokens: int | None = None,
        max_concurrency: int = 1024,
        first_retry_s: float = 0.05,
    ) -> None:
        """`first_retry_s`: seconds before an aborted answer is continued; twice as long each time that nothing came
        since the abort before."""
        self.version: str | None = None
        """The weights that the trainer announced last; None: it announced none."""
        self._function = function
        self._max_tokens = max_tokens
        self._first_retry_s = first_retry_s
        self._slots = asyncio.Semaphore(max_concurrency)
        self._open = asyncio.Event()
        self._open.set()

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    @property
    def max_tokens(self) -> int | None:
        return self._max_tokens

    def pause(self) -> None:
        """Call the function no more until `resume`; calls that run go on."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def generate(
        self,
        prompt_ids: Sequence[int],
        params: JsonObject,
        call: Call,
        *,
        rollout: str | None,
        stream: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        answer = _Answer(list(prompt_ids), self._bounded(params, len(prompt_ids)))
        key = hashlib.sha256(rollout.encode()).hexdigest()[:16] if rollout else None
        wait_s = self._first_retry_s
        try:
            async with asyncio.timeout(call.remaining_s), self._slots:
                while not answer.finished:
                    await self._open.wait()
                    before, version = len(answer.ids), self.version
                    async with aclosing(self._call(answer, key)) as completions:
                        async for completion in completions:
                            known = version if version == self.version else None
                            yield answer.take(completion, known, before)
                    if answer.finished:
                        return
                    wait_s = self._first_retry_s if len(answer.ids) > before else min(2 * wait_s, LONGEST_RETRY_S)
                    await asyncio.sleep(wait_s)
        except TimeoutError as error:
            raise InfraError(
                "the engine function gave no whole answer within the call's deadline",
                kind="upstream_timeout",
                stage="model",
            ) from error

    def _bounded(self, params: JsonObject, n_prompt: int) -> JsonObject:
        """The parameters, with a bound of the answer where the model has one."""
        if self._max_tokens is None:
            return params
        room = self._max_tokens - n_prompt
        wanted = params.get("max_tokens")
        return {**params, "max_tokens": min(wanted, room) if isinstance(wanted, int) else room}

    async def _call(self, answer: "_Answer", key: str | None) -> AsyncGenerator[Completion, None]:
        try:
            async with aclosing(_completions(self._function(answer.prompt, answer.sampling, rollout=key))) as given:
                async for completion in given:
                    yield completion
        except (PaddockError, TimeoutError):
            raise
        except Exception as error:
            raise InfraError(
                f"the engine function raised {type(error).__name__}: {str(error)[:300]}",
                kind="engine_failed",
                stage="model",
            ) from error


class EngineFunctionServer(ABC):
    """A model server whose engine is a function of the process in which it is trained."""

    @abstractmethod
    def make_engine(self) -> FunctionEngine:
        """ConfigError where there is no such function."""


class _Answer:
    """One answer while it is sampled, maybe by several calls of the function."""

    def __init__(self, prompt_ids: list[int], params: JsonObject) -> None:
        self.ids: list[int] = []
        self.finished = False
        self._prompt_ids = prompt_ids
        self._params = params
        self._spans: list[WeightSpan] = []
        self._cached_tokens = 0
        start = params.get(ROUTED_EXPERTS_START)
        self._experts = None if start is None else _ExpertRows(start)

    @property
    def prompt(self) -> list[int]:
        """Ids of the next call."""
        return [*self._prompt_ids, *self.ids]

    @property
    def sampling(self) -> JsonObject:
        """Parameters of the next call."""
        params, limit = dict(self._params), self._params.get("max_tokens")
        if isinstance(limit, int):
            params["max_tokens"] = limit - len(self.ids)
        if self._experts is not None:
            params[ROUTED_EXPERTS_START] = self._experts.end
        return params

    def take(self, completion: Completion, announced: str | None, before: int) -> Chunk:
        """The chunk of a completion. `before`: how many ids there were before its call."""
        if self.finished:
            raise _unreadable("it went on after its finish reason")
        try:
            # `index`: what is no integer is no id, not the id before it.
            ids, log_probs = [index(token) for token in completion.ids], [float(one) for one in completion.log_probs]
        except (TypeError, ValueError) as error:
            raise _unreadable(f"its ids or log-probs are no numbers: {error}") from error
        if any(token < 0 for token in ids):
            raise _unreadable("one of its ids is negative")
        if len(ids) != len(log_probs):
            raise _unreadable(f"it gave {len(ids)} ids, but {len(log_probs)} log-probs")
        if not all(isfinite(value) for value in log_probs):
            raise _unreadable("one of its log-probs is no finite number")
        if before == 0:
            self._cached_tokens = max(self._cached_tokens, completion.cached_tokens)
        version = announced if completion.weight_version is None else str(completion.weight_version)
        self._add_span(version, len(self.ids), len(self.ids) + len(ids))
        self.ids += ids
        if completion.weight_versions:
            self._set_spans(completion.weight_versions, before)
        reason = completion.finish_reason
        if reason == "abort" and self.sampling.get("max_tokens") == 0:
            reason = "length"
        if self._experts is not None and reason is not None:
            self._experts.add(completion.routed_experts, len(self._prompt_ids) + len(self.ids), last=reason != "abort")
        if reason not in ("stop", "length"):
            return Chunk(ids, log_probs)
        if not self.ids:
            raise _unreadable("it ended before an id was sampled, if only the stop token", kind="upstream_empty")
        self.finished = True
        spans, experts = self._spans if self._has_versions() else (), self._experts
        return Chunk(ids, log_probs, reason, spans, self._cached_tokens, experts.joined if experts else None)

    def _add_span(self, version: str | None, start: int, end: int) -> None:
        if self._spans and self._spans[-1].version == version:
            start = self._spans.pop().start
        if end > start:
            self._spans.append(WeightSpan(version=version, start=start, end=end))

    def _set_spans(self, given: Sequence[WeightSpan], before: int) -> None:
        """The spans of a call whose first id is number `before`, in place of what was taken for them."""
        edges = [0, *(span.end for span in given)]
        if [span.start for span in given] != edges[:-1] or edges[-1] != len(self.ids) - before:
            raise _unreadable(f"its weight versions do not cover the {len(self.ids) - before} ids of the call")
        earlier, self._spans = self._spans, []
        for span in earlier:
            self._add_span(span.version, span.start, min(span.end, before))
        for span in given:
            self._add_span(span.version, before + span.start, before + span.end)

    def _has_versions(self) -> bool:
        return any(span.version is not None for span in self._spans)


class _ExpertRows:
    """Rows of one answer's tokens, of one call after the other."""

    def __init__(self, start: int) -> None:
        self.end = start
        """Position from which rows are missing."""
        self.joined: RoutedExperts | None = None
        """All of them, once the answer is whole."""
        self._parts: list[RoutedExperts] = []

    def add(self, given: RoutedExperts | None, tokens: int, *, last: bool) -> None:
        """Those of a call, at whose end the sequence has so many tokens. `last`: there is no other call."""
        if given is None:
            if last and self.end < tokens - 1:
                raise InfraError(
                    "the engine gave no routed experts: it has to be a mixture of experts, and to be started so",
                    kind="routed_experts_missing",
                    stage="model",
                    retryable=False,
                )
            return
        try:
            if self.end < tokens - 1:
                self._parts.append(given.part(self.end, tokens - 1))
                self.end = tokens - 1
            if last:
                self.joined = RoutedExperts.join(self._parts)
        except ValueError as error:
            raise _unreadable(str(error)) from error


async def _completions(given: Any) -> AsyncGenerator[Completion, None]:
    """What a function gave, as a stream that ends with a finish reason."""
    reason: str | None = None
    if inspect.isawaitable(given):
        completion = _read(await given)
        reason = completion.finish_reason
        yield completion
    elif hasattr(given, "__aiter__"):
        try:
            async for item in given:
                completion = _read(item)
                reason = completion.finish_reason
                yield completion
        finally:
            if hasattr(given, "aclose"):
                await given.aclose()
    else:
        raise _unreadable(
            f"it gave {type(given).__name__}, neither an awaitable nor an asynchronous iterator: is it `async def`?"
        )
    if reason is None:
        raise _unreadable("its answer ended without a finish reason")


def _read(item: Any) -> Completion:
    try:
        completion = item if isinstance(item, Completion) else Completion(*cast("tuple[Any, ...]", item))
    except TypeError:
        completion = None
    if completion is None or not isinstance(item, tuple):
        raise _unreadable(f"it gave {type(item).__name__}, no `Completion`")
    if completion.finish_reason not in ("stop", "length", "abort", None):
        raise _unreadable(f"finish reason {completion.finish_reason!r}: needs stop, length or abort")
    return completion


def _unreadable(why: str, kind: str = "upstream_unreadable") -> InfraError:
    return InfraError(f"the engine function: {why}", kind=kind, stage="model")
