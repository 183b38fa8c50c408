"""A rollout worker for `trl.experimental.async_grpo.AsyncGRPOTrainer`: our environments fill its queue.

Law     the queue is bounded, and a group is read when there is room for the one before: a trainer that reads nothing
        holds the rollouts back. Rows are gone through again and again, in another order each time. `stop` ends what
        runs and empties nothing: what is queued may be read. The client is its owner's to close.
Errors  `check_health` raises what ended the worker: a RolloutClient's errors, and InfraError `groups_lost` where
        group after group has no two rewarded members. It raises nothing for a worker that is slow: rollouts have
        deadlines of their own.
"""

import asyncio
import queue
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing

from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from paddock.errors import InfraError
from paddock.rollouts import RolloutClient, RolloutGroup
from paddock.training.trl.rows import messages_of
from paddock.training.trl.samples import WeightLabels, group_samples
from paddock.training.trl.settings import TrlWorkerSettings
from paddock.types import JsonObject

MOST_METRICS = 4096
POLL_S = 0.02
"""Between two looks at whether the trainer has made room."""


class TrlRolloutWorker:
    """TRL's `RolloutWorkerProtocol` over a rollout client."""

    def __init__(
        self, client: RolloutClient, rows: Sequence[JsonObject], settings: TrlWorkerSettings | None = None
    ) -> None:
        if not rows:
            raise ValueError("there are no rows to run rollouts of")
        self.settings = settings or TrlWorkerSettings()
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue(self.settings.max_queued_samples)
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue(MOST_METRICS)
        self._client = client
        self._rows = list(rows)
        self._version = 0
        self._labels = WeightLabels()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run rollouts; where they run already, nothing changes."""
        if self._thread is not None:
            return
        self._failure = None
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._fill())
        self._thread = threading.Thread(
            target=self._run, args=(self._loop, self._task), name="paddock-trl", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End all rollouts that run, and wait for that."""
        if self._thread is None or self._loop is None or self._task is None:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()
        self._loop.close()
        self._thread = self._loop = self._task = None

    def update_model_version(self, model_version: int) -> None:
        """Say which weights sample from now on."""
        self._version = model_version
        self._client.announce_weights(model_version)

    def check_health(self, stale_after_s: float) -> None:
        """Raise what ended the worker."""
        if self._failure is not None:
            raise self._failure
        if self._thread is None or not self._thread.is_alive():
            raise InfraError("the rollout worker does not run", kind="worker_stopped", retryable=False)

    def _run(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            return
        except BaseException as error:  # noqa: BLE001 -- the trainer's thread raises it
            self._failure = error

    async def _fill(self) -> None:
        lost = 0
        stream = self._client.groups(self._endless_rows(), self.settings.num_generations)
        async with aclosing(stream.__aiter__()) as groups:
            async for group in groups:
                samples = self._samples(group)
                lost = 0 if samples else lost + 1
                if lost >= self.settings.max_lost_groups:
                    raise InfraError(_lost_text(lost, group), kind="groups_lost", retryable=False)
                waited_s = await self._put(samples)
                self._report(group, samples, waited_s)

    async def _put(self, samples: Sequence[RolloutSample]) -> float:
        """Queue the samples, and say for how many seconds the queue was full."""
        began = None
        for sample in samples:
            while True:
                try:
                    sample.enqueued_at = time.time()
                    self.rollout_buffer.put_nowait(sample)
                    break
                except queue.Full:
                    began = began or time.monotonic()
                    await asyncio.sleep(POLL_S)
        return time.monotonic() - began if began is not None else 0.0

    def _samples(self, group: RolloutGroup) -> list[RolloutSample]:
        rollout = group.members[0].rollout
        prompt = messages_of(rollout.row.to_wire()) if rollout is not None else []
        return group_samples(group, self.settings.grpo, newest=self._version, labels=self._labels, prompt=prompt)

    def _report(self, group: RolloutGroup, samples: Sequence[RolloutSample], waited_s: float) -> None:
        metrics: dict[str, float] = {
            "rollout/members_total": len(group.members),
            "rollout/masked_total": sum(member.mask is not None for member in group.members),
            "rollout/groups_lost_total": float(not samples),
            "rollout/seconds_max": max(member.total_s for member in group.members),
            "rollout/backpressure_s": waited_s,
        }
        try:
            self.metrics_queue.put_nowait(metrics)
        except queue.Full:
            return

    def _endless_rows(self) -> Iterator[JsonObject]:
        chance = random.Random(self.settings.seed)
        while True:
            yield from chance.sample(self._rows, len(self._rows))


def _lost_text(lost: int, group: RolloutGroup) -> str:
    failures = [member.failure for member in group.members if member.failure]
    last = f"; the last failure: {failures[-1]}" if failures else ""
    return f"{lost} groups in a row had fewer than two members with a reward{last}"
