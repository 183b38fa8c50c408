"""The asynchronous loop: groups are begun, end, are trained on, and new weights are sent; nothing waits but for these.

Step    `s` takes the oldest groups that it may, trains weights `s` on them, gives up what is now too old, sends weights
        `s + 1`, validates, tells, and stores a checkpoint, as far as each is due. Groups run all the while, as
        `core.ledger` admits them; one that is too old for each step to come is given up and its row begun again, and
        the last one of a row is waited for.
Sending in flight: groups run on, and go on under the new weights. Waiting: those that run end before. None is begun
        between the end of a training and the end of its sending.
Resume  what a step told is on the disk before its checkpoint is; what was told after the checkpoint that a run goes on
        from has to be forgotten by who wrote it down. Groups that ran are begun again under their ids.
Errors  a PaddockError that says what failed and from which checkpoint to go on, raised once all groups have been
        cancelled and have ended. InfraError `generation_failures` when too many groups in a row had no verdict.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from paddock.config import nearest
from paddock.errors import BugError, ConfigError, PaddockError
from paddock.training.core.batches import make_batch
from paddock.training.core.ledger import Ledger, LostGroup
from paddock.training.core.metrics import batch_metrics, spread
from paddock.training.core.order import RowOrder
from paddock.training.core.records import Batch, Group
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.calls import calling
from paddock.training.grpo.checkpoints import Checkpoints, State, Stored, write_whole_folder
from paddock.training.grpo.engines import Engines
from paddock.training.grpo.flight import Flight
from paddock.training.grpo.roles import Policy, Rollouts, Trained, Validated
from paddock.training.grpo.timing import Stopwatch

_log = logging.getLogger("paddock.training")
Why = Literal["steps", "rows", "time"]
POLICY_S = ("wait_s", "drain_s", "train_s", "send_s")
"""What the policy's time goes to: the first two are waiting."""


class LoopSettings(NamedTuple):
    """What a loop is told."""

    grpo: GrpoSettings
    groups: GroupSettings
    n_rows: int
    """Of the training dataset."""
    max_length: int
    """`policy.max_total_sequence_length`, in tokens."""
    shuffle: bool = True
    metric: str | None = None
    """By which checkpoints are kept, as it is logged (`train/total_reward/mean`, `validation/accuracy`)."""
    save_period: int = 10
    """Steps between checkpoints; the end of a run has one of its own."""
    must_save_by_s: float | None = None
    """After so long the step is ended, stored, and the run ends; None: no such time."""
    send_deadline_s: float = 600.0
    """How long engines that fail or start may keep the run from sending weights."""
    look_s: float = 5.0
    """How often it is looked, while the policy waits, whether an engine started anew and needs weights."""
    retry_s: float = 1.0
    """Between two tries to send."""
    export: Path | None = None
    """Where the weights of the best checkpoint (the last ones, where none is stored) go at the end, in the form of
    Hugging Face."""


class Told(NamedTuple):
    """A step that was done; or a validation at the start or the end (`batch` is None then)."""

    steps: int
    """Done by now: the x of every curve; 0: before the first."""
    batch: Batch | None
    lost: tuple[LostGroup, ...]
    """Since the last step was told."""
    metrics: dict[str, float]
    """`train/...`, `validation/...`, `timing/...` (seconds, shares), `buffer/...` (groups), `lost/...` (seconds that
    groups had run which were lost since the last step was told, by why)."""


class Ended(NamedTuple):
    """How a run ended."""

    why: Why
    """`max_num_steps` were done; all epochs are over; `must_save_by_s` was reached."""
    steps: int
    n_started: int
    """Groups, in the whole run; those that were left at the end too."""
    n_trained: int
    lost: dict[str, int]
    """Groups, by why."""
    n_retries: int
    """Lost groups whose row was begun again."""
    wait_share: float
    """Of the time that the policy waited, trained and sent: how much it waited. Since this start."""
    checkpoint: Path | None
    """The last."""
    best: Path | None
    """Checkpoint, by its metric."""
    exported: int | None
    """How many steps the exported weights have had; None: none were."""


class Loop:
    """One run from its start, or its checkpoint, to its end. It stops none of its roles: who made them does."""

    def __init__(
        self,
        settings: LoopSettings,
        rollouts: Rollouts,
        policy: Policy,
        tell: Callable[[Told], None],
        checkpoints: Checkpoints | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell`: returns when what it was told lasts. `checkpoints`: None: none are stored."""
        self._settings = settings
        self._grpo = settings.grpo
        self._asynchronous = settings.grpo.async_grpo
        self._rollouts = rollouts
        self._policy = policy
        self._tell = tell
        self._checkpoints = checkpoints
        self._clock = clock
        self._ledger = Ledger(self._grpo, self._order(), settings.groups)
        self._engines = Engines(
            rollouts,
            policy,
            # Where nothing runs meanwhile, there is nothing in a cache that could be kept.
            clear_cache=self._asynchronous.recompute_kv_cache_after_weight_updates or not self._in_flight,
            deadline_s=settings.send_deadline_s,
            retry_s=settings.retry_s,
            clock=clock,
        )
        self._flight: Flight
        self._last: Stored | None = None
        self._metrics: dict[str, float] = {}
        self._times = Stopwatch(clock)
        self._spent = dict.fromkeys(POLICY_S, 0.0)
        self._started = clock()

    async def run(self, *, resume: bool = False) -> Ended:
        """`resume`: from the newest checkpoint; from the start if there is none."""
        self._started = self._clock()
        failures: list[Exception] = []
        try:
            async with asyncio.TaskGroup() as owner:
                try:
                    if self._checkpoints is not None:
                        await asyncio.to_thread(self._checkpoints.clean)
                    stored = await self._restore() if resume else None
                    self._flight = self._make_flight(owner, stored.books["in_a_row"] if stored else 0)
                    await self._start(resumed=stored is not None)
                    why = await self._steps()
                    exported = await self._end(why)
                    self._flight.stop()
                except Exception as error:
                    failures.append(error)
                    raise
        except BaseExceptionGroup as errors:
            raise _with_hint(_first([*failures, errors]), self._last) from None
        return self._ended(why, exported)

    @property
    def _in_flight(self) -> bool:
        return self._asynchronous.in_flight_weight_updates

    @property
    def _full(self) -> bool:
        return self._ledger.step >= self._grpo.max_num_steps

    def _late(self) -> bool:
        must = self._settings.must_save_by_s
        return must is not None and self._clock() - self._started >= must

    def _order(self) -> RowOrder:
        grpo, settings = self._grpo, self._settings
        return RowOrder(settings.n_rows, seed=grpo.seed, shuffle=settings.shuffle, max_epochs=grpo.max_num_epochs)

    def _make_flight(self, owner: asyncio.TaskGroup, in_a_row: int) -> Flight:
        return Flight(
            self._ledger,
            self._rollouts,
            owner,
            groups=self._settings.groups,
            max_failures=self._asynchronous.max_generation_failures,
            in_a_row=in_a_row,
            clock=self._clock,
        )

    async def _restore(self) -> State | None:
        stored = self._checkpoints.newest() if self._checkpoints is not None else None
        if stored is None:
            return None
        state = await asyncio.to_thread(stored.read)
        self._ledger = Ledger.from_wire(
            state.books["ledger"], state.waiting, grpo=self._grpo, order=self._order(), groups=self._settings.groups
        )
        self._last = stored
        with calling("the policy", "load"):
            await self._policy.load(stored.policy)
        with calling("the rollout worker", "restore"):
            await self._rollouts.restore(stored.rollouts)
        return state

    async def _start(self, *, resumed: bool) -> None:
        await self._engines.bring(self._ledger.step)
        self._ledger.finish_sending()
        if self._grpo.val_at_start and not resumed:
            self._tell(Told(0, None, (), await self._validate()))
        self._times.lap()
        if not self._full:
            self._flight.open()

    async def _steps(self) -> Why:
        ledger = self._ledger
        while not self._full:
            with self._times("wait_s"):
                await self._flight.until(
                    lambda: ledger.ready or ledger.starved or self._late(), self._settings.look_s, self._look
                )
            if self._late():
                return "time"
            groups = ledger.take()
            if groups is None:
                return "rows"
            await self._step(groups)
        return "steps"

    async def _look(self) -> None:
        await self._engines.look(self._ledger.step)

    async def _step(self, groups: list[Group]) -> None:
        batch = make_batch(
            groups,
            step=self._ledger.step,
            grpo=self._grpo,
            settings=self._settings.groups,
            max_length=self._settings.max_length,
            known_versions=range(self._ledger.step + 1),
        )
        with self._times("train_s"):
            trained = await self._train(batch)
        self._ledger.finish_step()
        self._flight.close()
        self._flight.give_up()
        if not self._in_flight:
            with self._times("drain_s"):
                await self._flight.until(lambda: self._flight.idle, self._settings.look_s)
        with self._times("send_s"):
            brought = await self._engines.bring(self._ledger.step)
        self._ledger.finish_sending()
        if not self._full:
            self._flight.open()
        found = await self._validate() if self._validation_due() else {}
        self._tell_step(batch, trained, {**found, "timing/engines_paused_s": brought.pause_s})
        if self._ledger.step % self._settings.save_period == 0 or self._full:
            await self._save()

    async def _train(self, batch: Batch) -> Trained:
        if not batch.rows:
            _log.warning("step %s has nothing to train on: all of it is masked", batch.step)
            return Trained({})
        with calling("the policy", "train"):
            return await self._policy.train(batch)

    def _validation_due(self) -> bool:
        period = self._grpo.val_period
        return (period > 0 and self._ledger.step % period == 0) or (self._grpo.val_at_end and self._full)

    async def _validate(self) -> dict[str, float]:
        with self._times("validate_s"), calling("the rollout worker", "validate"):
            found = await self._looking(self._rollouts.validate(self._ledger.step))
        if not found.n_verdicts:
            _log.warning("the validation after %s steps had no verdict", self._ledger.step)
        counts = {"n_rollouts": float(found.n_rollouts), "n_verdicts": float(found.n_verdicts)}
        return {f"validation/{name}": value for name, value in {**found.metrics, **counts}.items()}

    async def _looking(self, work: Coroutine[Any, Any, Validated]) -> Validated:
        """The validation, which may take hours, and meanwhile weights for engines that are started anew."""
        task = asyncio.create_task(work)
        try:
            while (await asyncio.wait([task], timeout=self._settings.look_s))[1]:
                await self._look()
            return await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _tell_step(self, batch: Batch, trained: Trained, others: dict[str, float]) -> None:
        times = self._times.lap()
        for name in POLICY_S:
            self._spent[name] += times.get(name, 0.0)
        measured = batch_metrics(batch)
        lost = self._flight.take_lost()
        self._metrics = {
            **measured,
            **{name if "/" in name else f"train/{name}": value for name, value in trained.metrics.items()},
            **others,
            **{f"timing/{name}": value for name, value in times.items()},
            "timing/wait_share": _wait_share(times),
            "timing/tokens_per_s": batch.tokens / max(times["step_s"], 1e-9),
            "train/masked/log_prob_error": float(len(trained.masked_rows)),
            **self._counts(),
            **_lost_durations(lost),
        }
        self._tell(Told(self._ledger.step, batch, lost, self._metrics))

    def _counts(self) -> dict[str, float]:
        ledger = self._ledger
        return {
            "buffer/waiting": float(len(ledger.waiting)),
            "buffer/running": float(len(ledger.running)),
            "buffer/begun": float(ledger.n_started),
            **{f"buffer/lost/{why}": float(count) for why, count in ledger.lost.items()},
            "buffer/begun_again": float(ledger.n_retries),
        }

    async def _save(self) -> None:
        if self._checkpoints is None:
            return
        books = {"ledger": self._ledger.to_wire(), "in_a_row": self._flight.in_a_row}
        state = State(books, self._ledger.waiting.groups)
        metric = self._judged_by(self._settings.metric)

        async def fill(folder: Path) -> None:
            with calling("the policy", "save"):
                await self._policy.save(folder / "policy")
            with calling("the rollout worker", "checkpoint"):
                await self._rollouts.checkpoint(folder / "rollouts")

        with self._times("checkpoint_s"):
            self._last = await self._checkpoints.write(self._ledger.step, metric, state, fill)

    def _judged_by(self, name: str | None) -> float | None:
        """The metric by which checkpoints are kept, after this step."""
        if name is not None and name not in self._metrics:
            close = nearest(name, self._metrics)
            hint = f"; nearest: {close}" if close else ""
            _log.warning("checkpointing.metric_name: step %s has no %s%s", self._ledger.step, name, hint)
        return self._metrics.get(name) if name is not None else None

    async def _end(self, why: Why) -> int | None:
        """What is due at the end, and was not due after the last step."""
        steps = self._ledger.step
        self._flight.close()
        if why != "steps":
            if why == "rows" and self._grpo.val_at_end:
                self._metrics = {**self._metrics, **await self._validate()}
                self._tell(Told(steps, None, self._flight.take_lost(), self._metrics))
            if steps and (self._last is None or self._last.step != steps):
                await self._save()
        return await self._export()

    async def _export(self) -> int | None:
        place = self._settings.export
        if place is None:
            return None
        best = self._checkpoints.best() if self._checkpoints is not None else None
        with calling("the policy", "export"):
            if best is not None and best.step != self._ledger.step:
                await self._policy.load(best.policy)
            await write_whole_folder(place, self._policy.export)
        return best.step if best is not None else self._ledger.step

    def _ended(self, why: Why, exported: int | None) -> Ended:
        best = self._checkpoints.best() if self._checkpoints is not None else None
        return Ended(
            why=why,
            steps=self._ledger.step,
            n_started=self._ledger.n_started,
            n_trained=self._ledger.n_trained,
            lost={str(name): count for name, count in self._ledger.lost.items()},
            n_retries=self._ledger.n_retries,
            wait_share=_wait_share(self._spent),
            checkpoint=self._last.folder if self._last is not None else None,
            best=best.folder if best is not None else None,
            exported=exported,
        )


def _lost_durations(lost: Sequence[LostGroup]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one in lost:
        if one.seconds is not None:
            found.setdefault(one.why, []).append(one.seconds)
    return {name: value for why, seconds in sorted(found.items()) for name, value in spread(f"lost/{why}_s", seconds)}


def _wait_share(times: Mapping[str, float]) -> float:
    """Of what the policy's time went to."""
    spent = [times.get(name, 0.0) for name in POLICY_S]
    return sum(spent[:2]) / sum(spent) if sum(spent) else 0.0


def _first(errors: Sequence[BaseException]) -> BaseException:
    """What went wrong first: the others came of ending the rest."""
    first = errors[0]
    return _first(first.exceptions) if isinstance(first, BaseExceptionGroup) else first


def _with_hint(error: BaseException, last: Stored | None) -> BaseException:
    """The same, and from where the run can go on; where the config is wrong, or we are, that would be no help."""
    if not isinstance(error, PaddockError) or isinstance(error, ConfigError | BugError):
        return error
    hint = f"`--resume` goes on from {last.folder}" if last is not None else "no checkpoint was stored yet"
    hinted = type(error)(f"{error.message} ({hint})", kind=error.kind, stage=error.stage, retryable=error.retryable)
    hinted.__cause__ = error
    return hinted
