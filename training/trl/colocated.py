"""The vLLM that TRL holds in the trainer's process (`vllm_mode="colocate"`), as an engine function.

Law     it is asked while a batch is rolled out, and by nobody else meanwhile: one thread adds requests and steps, so
        that answers of all rollouts are sampled together however they come. TRL has put the new weights in before.
Sampling TRL's `temperature`, `top_p`, `top_k`, `min_p` and `repetition_penalty` stand in place of a row's, for its
        policy computes log-probs at them. An answer has at most `max_completion_length` tokens.
Errors  ConfigError `colocated_unsupported` for tensor parallelism, where every rank has to ask the same, and for sleep
        mode; a request that vLLM refuses, or a step that fails, is that of the rollouts that wait for it.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from paddock.errors import ConfigError
from paddock.rollouts import Completion
from paddock.types import JsonObject

_OWN = ("stop", "stop_token_ids", "seed", "presence_penalty", "frequency_penalty", "min_tokens")
"""Parameters that are a row's."""
_TRAINERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
Command = Callable[[Any], None]


class ColocatedEngine:
    """Samples with the vLLM of one trainer; given to `open_rollouts(engine=...)` and to `rollout_function`."""

    def __init__(self) -> None:
        self._generation: Any = None
        self._commands: queue.Queue[Command | None] = queue.Queue()
        self._waiting: dict[str, Future[Completion]] = {}
        self._numbers = count()

    @contextmanager
    def running(self, generation: Any) -> Iterator[None]:
        """Let rollouts be sampled, until this is left. `generation`: the trainer's `vllm_generation`."""
        _require_supported(generation)
        self._generation = generation
        thread = threading.Thread(
            target=self._run, args=(generation.llm.llm_engine,), name="paddock-colocated", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._commands.put(None)
            thread.join()
            self._generation = None

    async def __call__(self, ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        if self._generation is None:
            raise RuntimeError("no batch of TRL's is being rolled out: the engine is the trainer's")
        name, params = f"paddock-{next(self._numbers)}", sampling_params(self._generation, sampling)
        future: Future[Completion] = Future()

        def add(engine: Any) -> None:
            self._waiting[name] = future
            try:
                engine.add_request(name, {"prompt_token_ids": ids}, params)
            except Exception as error:  # noqa: BLE001 -- whoever waits raises it
                self._end(name, error=error)

        def abort(engine: Any) -> None:
            if self._waiting.pop(name, None) is not None:
                engine.abort_request([name])

        self._commands.put(add)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._commands.put(abort)
            raise

    def _run(self, engine: Any) -> None:
        try:
            while self._obey(engine, wait=not self._waiting):
                for output in engine.step() if self._waiting else ():
                    if output.finished:
                        self._end(output.request_id, output)
        except Exception as error:  # noqa: BLE001 -- whoever waits raises it
            for name in list(self._waiting):
                self._end(name, error=error)

    def _obey(self, engine: Any, *, wait: bool) -> bool:
        """Do what was asked for meanwhile; whether there is more to come."""
        while True:
            try:
                command = self._commands.get(block=wait)
            except queue.Empty:
                return True
            if command is None:
                for name in list(self._waiting):
                    engine.abort_request([name])
                    self._end(name, error=RuntimeError("the batch has ended"))
                return False
            command(engine)
            wait = False

    def _end(self, name: str, output: Any = None, *, error: Exception | None = None) -> None:
        future = self._waiting.pop(name, None)
        if future is None:
            return
        with suppress(InvalidStateError):  # nobody waits any more
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(completion_of(output))


def sampling_params(generation: Any, sampling: JsonObject) -> Any:
    """vLLM's parameters of one answer."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    params = {name: sampling[name] for name in _OWN if sampling.get(name) is not None}
    params |= {name: value for name in _TRAINERS if (value := getattr(generation, name)) is not None}
    longest = generation.max_completion_length
    params["max_tokens"] = min(sampling.get("max_tokens") or longest, longest)
    return SamplingParams(**params, logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY)


def completion_of(output: Any) -> Completion:
    """What vLLM sampled, with the log-prob of each id that was."""
    (answer,) = output.outputs
    ids = list(answer.token_ids)
    log_probs = [found[token].logprob for token, found in zip(ids, answer.logprobs, strict=True)]
    return Completion(ids, log_probs, answer.finish_reason, cached_tokens=output.num_cached_tokens or 0)


def _require_supported(generation: Any) -> None:
    found = {
        "vllm_mode": generation.mode != "colocate",
        "vllm_tensor_parallel_size": generation.tensor_parallel_size > 1,
        "vllm_enable_sleep_mode": generation.enable_sleep_mode,
    }
    if wrong := [name for name, is_wrong in found.items() if is_wrong]:
        raise ConfigError(
            f"GRPOConfig.{wrong[0]}: the rollouts of a trainer ask its colocated vLLM for answers one by one: set "
            "vllm_mode to colocate, vllm_tensor_parallel_size to 1 and vllm_enable_sleep_mode to false",
            kind="colocated_unsupported",
        )
