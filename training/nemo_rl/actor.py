"""Our environments as the actor that NeMo-RL keeps in `task_to_env["nemo_gym"]`.

Source  NVIDIA-NeMo/RL, `nemo_rl/environments/nemo_gym.py`: the methods that are called of its `NemoGym`, and what
        `run_rollouts` streams: `(rowidx, {message_log, input_message_log, full_result}, timing or None)`.
Law     results come in the order of completion, the timing with the last. When the stream is left, its rollouts end.
        An actor that Ray restarted has no servers, and raises an error that says so.
Errors  `StatusError`, those of `serving`, and those of `actor_config`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, TypeVar

from paddock.errors import InfraError
from paddock.training.nemo_rl.actor_config import ActorConfig
from paddock.training.nemo_rl.member_requests import ROW_INDEX
from paddock.training.nemo_rl.message_log import IdDecoder, TensorMakers, to_message_log, torch_tensors
from paddock.training.nemo_rl.serving import EnvironmentService
from paddock.types import JsonObject

T = TypeVar("T")


class GymActor:
    """`_spinup` and `set_tokenizer` before `run_rollouts`. `tensors` None: torch's."""

    def __init__(self, cfg: Mapping[str, Any], tensors: TensorMakers | None = None) -> None:
        self._config = ActorConfig.of(cfg)
        self._tensors = tensors
        self._service = EnvironmentService()
        self._tokenizer: IdDecoder | None = None

    def _spinup(self) -> None:
        """Returns when all servers are ready."""
        self._config.require_possible()
        self._tensors = self._tensors or torch_tensors()
        self._service.start(self._config.dictionary)

    def set_tokenizer(self, tokenizer: IdDecoder) -> None:
        self._tokenizer = tokenizer

    def health_check(self) -> None:
        """Raises when a server has died, or none was started."""
        self._service.poll()

    def shutdown(self) -> None:
        self._service.close()

    async def run_rollouts(
        self, nemo_gym_examples: list[JsonObject], timer_prefix: str, deduplicate_multimodal_data: bool = False
    ) -> AsyncGenerator[tuple[int, JsonObject, dict[str, float] | None], None]:
        """Stream a result for each row. `deduplicate_multimodal_data` has no effect: there is no such data."""
        self._service.poll()
        if not nemo_gym_examples:
            raise ValueError("a batch of rollouts needs a row")
        if self._tokenizer is None or self._tensors is None:
            raise InfraError(
                "set_tokenizer was not called: the actor decodes ids of results", kind="not_started", retryable=False
            )
        clock = _Clock()
        detection = self._config.detection
        stream = self._service.run(nemo_gym_examples)
        n_left = len(stream)
        try:
            for pending in stream:
                row, result = await clock.timed("await_results", pending)
                work = asyncio.to_thread(to_message_log, result, detection, self._tokenizer, self._tensors)
                message_log = await clock.timed("postprocess_results", work)
                n_left -= 1
                yield row[ROW_INDEX], message_log, None if n_left else clock.metrics(timer_prefix)
        finally:
            stream.cancel()


class _Clock:
    """How many seconds of a call each activity took."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._spent: dict[str, float] = {}

    async def timed(self, what: str, work: Awaitable[T]) -> T:
        started = time.monotonic()
        try:
            return await work
        finally:
            self._spent[what] = self._spent.get(what, 0.0) + time.monotonic() - started

    def metrics(self, prefix: str) -> dict[str, float]:
        total = max(time.monotonic() - self._started, 1e-9)
        share = 100 * self._spent["postprocess_results"] / total
        spent = {f"{prefix}/{what}": seconds for what, seconds in self._spent.items()}
        return {**spent, f"{prefix}/postprocess_results_pct": share}
