"""The asynchronous loop: groups run, end and are trained on, and new weights are sent; nothing else is waited for.

Step    step `s` takes its groups, trains weights `s` on them, gives up groups that are now too old, sends weights
        `s + 1`, validates, reports, and stores a checkpoint, as far as each is due. Meanwhile groups run, as
        `core.ledger` admits them. Which groups are a step's, and what becomes of others, `core.age_policies` say.
Sending with `in_flight_weight_updates` groups run on, and continue under the new weights; without, those that run end
        first. No group starts between the end of a training step and the end of its sending.
End     after `max_num_steps`, with the rows, by the clock, or with a step whose validation is good: `early_stop`.
Resume  the report of a step is on the disk before its checkpoint is. A run that goes on from a checkpoint has to forget
        what was reported after it. Groups that ran are started again under their ids.
Errors  a PaddockError with what failed and from which checkpoint to go on, raised once all groups have been cancelled
        and have ended. InfraError `generation_failures` when too many groups in a row had no verdict.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from statistics import fmean
from typing import Any

from paddock.config import nearest
from paddock.errors import BugError, ConfigError, PaddockError
from paddock.training.core.batches import make_batch
from paddock.training.core.curriculum import make_curriculum
from paddock.training.core.ledger import Ledger, LostGroup
from paddock.training.core.metrics import batch_metrics, durations
from paddock.training.core.order import RowOrder
from paddock.training.core.records import Batch, Group
from paddock.training.core.rollout_tally import RolloutTally
from paddock.training.grpo.calls import role_call
from paddock.training.grpo.checkpoints import Checkpoint, Checkpoints, LoopState, write_whole_folder
from paddock.training.grpo.early_stop import EarlyStop
from paddock.training.grpo.engines import Engines
from paddock.training.grpo.in_flight import InFlightGroups
from paddock.training.grpo.loop_records import EndReason, LoopSettings, LoopStatus, RunResult, StepReport
from paddock.training.grpo.roles import Policy, Rollouts, TrainResult, ValidationResult
from paddock.training.grpo.saves import CheckpointSaves
from paddock.training.grpo.stopwatch import Stopwatch

_log = logging.getLogger("paddock.training")
POLICY_S = ("wait_s", "drain_s", "train_s", "send_s")
"""Names of the spans of the policy's time; in the first two it waits."""


class Loop:
    """One run from its start, or its checkpoint, to its end. Its roles are stopped by the caller that made them."""

    def __init__(
        self,
        settings: LoopSettings,
        rollouts: Rollouts,
        policy: Policy,
        report: Callable[[StepReport], None],
        checkpoints: Checkpoints | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` returns when the report is on the disk. `checkpoints` None: none are stored."""
        self._settings = settings
        self._grpo = settings.grpo
        self._asynchronous = settings.grpo.async_grpo
        self._rollouts = rollouts
        self._policy = policy
        self._report = report
        self._checkpoints = checkpoints
        self._clock = clock
        self._ledger = Ledger(self._grpo, self._order(), settings.groups)
        self._engines = Engines(
            rollouts,
            policy,
            # Where nothing runs meanwhile, there is nothing in a cache that could be kept.
            clear_cache=self._asynchronous.recompute_kv_cache_after_weight_updates or not self._sends_in_flight,
            deadline_s=settings.send_deadline_s,
            retry_s=settings.retry_s,
            clock=clock,
        )
        self._groups: InFlightGroups
        self._ages: Callable[[], dict[int, float]] = dict
        background = settings.save_in_background
        self._saves = CheckpointSaves(checkpoints, policy, rollouts, background=background)
        self._early_stop = EarlyStop(self._grpo)
        self._metrics: dict[str, float] = {}
        """What was reported last."""
        self._stopwatch = Stopwatch(clock)
        self._policy_seconds = dict.fromkeys(POLICY_S, 0.0)
        self._started = clock()

    def status(self) -> LoopStatus:
        """What the loop does now."""
        span, since = self._stopwatch.current or (None, self._clock())
        return LoopStatus(
            step=self._ledger.step,
            span=span,
            span_s=self._clock() - since,
            n_waiting=len(self._ledger.waiting),
            n_needed=self._grpo.num_prompts_per_step,
            running=self._ages(),
        )

    async def run(self, *, resume: bool = False) -> RunResult:
        """Run to the end. `resume`: from the newest checkpoint, or from the start if there is none."""
        self._started = self._clock()
        failures: list[Exception] = []
        try:
            async with asyncio.TaskGroup() as owner:
                try:
                    if self._checkpoints is not None:
                        await asyncio.to_thread(self._checkpoints.clean)
                    checkpoint = await self._restore() if resume else None
                    self._groups = self._make_groups(owner, checkpoint.fields["failures_in_a_row"] if checkpoint else 0)
                    self._ages = self._groups.ages
                    await self._start(resumed=checkpoint is not None)
                    why = await self._steps()
                    exported = await self._end(why)
                    self._groups.stop()
                except Exception as error:
                    failures.append(error)
                    raise
        except BaseExceptionGroup as errors:
            raise _with_hint(_first([*failures, errors]), self._saves.newest) from None
        finally:
            await self._saves.cancel()
        return self._result(why, exported)

    @property
    def _sends_in_flight(self) -> bool:
        return self._asynchronous.in_flight_weight_updates

    @property
    def _all_steps_done(self) -> bool:
        return self._ledger.step >= self._grpo.max_num_steps

    def _must_save_now(self) -> bool:
        must = self._settings.must_save_by_s
        return must is not None and self._clock() - self._started >= must

    def _order(self) -> RowOrder:
        grpo, given = self._grpo, self._settings
        return RowOrder(
            given.pools,
            seed=grpo.seed,
            shuffle=given.shuffle,
            max_epochs=grpo.max_num_epochs,
            curriculum=make_curriculum(given.curriculum, seed=grpo.seed, rates=given.pass_rates),
        )

    def _make_groups(self, owner: asyncio.TaskGroup, in_a_row: int) -> InFlightGroups:
        return InFlightGroups(
            self._ledger,
            self._rollouts,
            owner,
            groups=self._settings.groups,
            grpo=self._grpo,
            failures_in_a_row=in_a_row,
            tally=RolloutTally(self._settings.environments),
            clock=self._clock,
        )

    async def _restore(self) -> LoopState | None:
        checkpoint = self._checkpoints.newest() if self._checkpoints is not None else None
        if checkpoint is None:
            return None
        state = await asyncio.to_thread(checkpoint.read)
        self._ledger = Ledger.from_wire(
            state.fields["ledger"], state.waiting, grpo=self._grpo, order=self._order(), groups=self._settings.groups
        )
        self._saves.newest = checkpoint
        self._early_stop = EarlyStop(self._grpo, resumed=True)
        self._metrics = state.fields.get("validation", {})
        with role_call("the policy", "load"):
            await self._policy.load(checkpoint.policy)
        with role_call("the rollout worker", "restore"):
            await self._rollouts.restore(checkpoint.rollouts)
        return state

    async def _start(self, *, resumed: bool) -> None:
        await self._engines.update(self._ledger.step)
        self._ledger.finish_sending()
        if self._grpo.val_at_start and not resumed:
            self._metrics = await self._validate()
            self._report(StepReport(0, None, (), self._metrics))
        self._stopwatch.lap()
        if not self._all_steps_done:
            self._groups.open()

    async def _steps(self) -> EndReason:
        ledger = self._ledger
        if self._early_stop.ends(self._metrics):
            return "validation"
        while not self._all_steps_done:
            with self._stopwatch("wait_s"):
                await self._groups.wait_until(
                    lambda: ledger.ready or ledger.starved or self._must_save_now(),
                    self._settings.poll_s,
                    self._update_restarted,
                )
            if self._must_save_now():
                return "time"
            groups = ledger.take()
            if groups is None:
                return "rows"
            await self._step(groups)
            await self._saves.collect()
            if self._early_stop.ends(self._metrics):
                return "validation"
        return "steps"

    async def _update_restarted(self) -> None:
        await self._engines.update_restarted(self._ledger.step)

    async def _step(self, groups: list[Group]) -> None:
        # In threads: at many long rollouts they take seconds, in which the loop would start and end no group.
        batch = await asyncio.to_thread(
            make_batch,
            groups,
            step=self._ledger.step,
            grpo=self._grpo,
            settings=self._settings.groups,
            max_length=self._settings.max_length,
            known_versions=range(self._ledger.step + 1),
            distillation=self._settings.distillation,
            replays_experts=self._settings.replays_experts,
        )
        with self._stopwatch("train_s"):
            trained = await self._train(batch)
        self._ledger.finish_step()
        self._groups.close()
        self._groups.give_up()
        if not self._sends_in_flight:
            with self._stopwatch("drain_s"):
                await self._groups.wait_until(lambda: self._groups.idle, self._settings.poll_s)
        with self._stopwatch("send_s"):
            update = await self._engines.update(self._ledger.step)
        self._ledger.finish_sending()
        if not self._all_steps_done:
            self._groups.open()
        validation = await self._validate() if self._validation_due() else {}
        measured = await asyncio.to_thread(batch_metrics, batch)
        is_saved = self._ledger.step % self._settings.save_period == 0 or self._all_steps_done
        if is_saved:
            with self._stopwatch("checkpoint_s"):
                # Groups end meanwhile: a checkpoint that knows of a lost one follows the report of it.
                await self._saves.finish()
        self._report_step(batch, trained, {**measured, **validation, "timing/engines_paused_s": update.pause_s})
        if is_saved:
            await self._save()

    async def _train(self, batch: Batch) -> TrainResult:
        if not batch.rows:
            _log.warning("step %s has nothing to train on: all of it is masked", batch.step)
            return TrainResult({})
        with role_call("the policy", "train"):
            return await self._policy.train(batch)

    def _validation_due(self) -> bool:
        return self._grpo.validates_after(self._ledger.step) or (self._grpo.val_at_end and self._all_steps_done)

    async def _validate(self) -> dict[str, float]:
        with self._stopwatch("validate_s"), role_call("the rollout worker", "validate"):
            validation = await self._validate_and_update(self._rollouts.validate(self._ledger.step))
        if not validation.n_verdicts:
            _log.warning("the validation after %s steps had no verdict", self._ledger.step)
        counts = {"n_rollouts": float(validation.n_rollouts), "n_verdicts": float(validation.n_verdicts)}
        return {f"validation/{name}": value for name, value in {**validation.metrics, **counts}.items()}

    async def _validate_and_update(self, work: Coroutine[Any, Any, ValidationResult]) -> ValidationResult:
        """Run the validation, which may take hours, and send weights to engines that are restarted meanwhile."""
        task = asyncio.create_task(work)
        try:
            while (await asyncio.wait([task], timeout=self._settings.poll_s))[1]:
                await self._update_restarted()
            return await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _report_step(self, batch: Batch, trained: TrainResult, others: dict[str, float]) -> None:
        times = self._stopwatch.lap()
        for name in POLICY_S:
            self._policy_seconds[name] += times.get(name, 0.0)
        lost = self._groups.take_lost()
        self._metrics = {
            **others,
            **{name if "/" in name else f"train/{name}": value for name, value in trained.metrics.items()},
            **{f"timing/{name}": value for name, value in times.items()},
            "timing/wait_share": _wait_share(times),
            "timing/tokens_per_s": batch.tokens / max(times["step_s"], 1e-9),
            "train/masked/log_prob_error": float(len(trained.masked_rows)),
            **self._counts(),
            **_lost_durations(lost),
            **self._groups.tally.take(),
            **(self._unfiltered(batch, lost) if self._grpo.use_dynamic_sampling else {}),
        }
        self._report(StepReport(self._ledger.step, batch, lost, self._metrics))

    def _unfiltered(self, batch: Batch, lost: Sequence[LostGroup]) -> dict[str, float]:
        """The reward of all groups that ended, whether or not dynamic sampling left them out, and how many they were
        in steps' worth."""
        skipped = [group for group in lost if group.why == "no_advantage"]
        rewards = [group.reward for group in skipped if group.reward is not None]
        trained = ([member.reward for member in group.members if member.reward is not None] for group in batch.groups)
        rewards += [fmean(each) for each in trained if each]
        n_ended = len(skipped) + len(batch.groups)
        return {
            "train/unfiltered_reward/mean": fmean(rewards) if rewards else 0.0,
            "train/dynamic_sampling_num_gen_batches": n_ended / self._grpo.num_prompts_per_step,
        }

    def _counts(self) -> dict[str, float]:
        ledger = self._ledger
        return {
            "buffer/waiting": float(len(ledger.waiting)),
            "buffer/running": float(len(ledger.running)),
            "buffer/started": float(ledger.n_started),
            **{f"buffer/lost/{why}": float(count) for why, count in ledger.lost.items()},
            "buffer/retried": float(ledger.n_retries),
            "buffer/late": float(ledger.n_late),
            **ledger.order.metrics(),
        }

    async def _save(self) -> None:
        if self._checkpoints is None:
            return
        metric = self._judged_by(self._settings.metric)
        with self._stopwatch("checkpoint_s"):
            fields = {
                "ledger": self._ledger.to_wire(),
                "failures_in_a_row": self._groups.failures_in_a_row,
                "validation": {name: value for name, value in self._metrics.items() if name.startswith("validation/")},
            }
            state = LoopState(fields, self._ledger.waiting.groups)
            await self._saves.save(self._ledger.step, metric, state)

    def _judged_by(self, name: str | None) -> float | None:
        """The value of the metric by which checkpoints are kept, after this step."""
        if name is not None and name not in self._metrics:
            close = nearest(name, self._metrics)
            hint = f"; nearest: {close}" if close else ""
            _log.warning("checkpointing.metric_name: step %s has no %s%s", self._ledger.step, name, hint)
        return self._metrics.get(name) if name is not None else None

    async def _end(self, why: EndReason) -> int | None:
        """Validate, save and export what was not done after the last step; how many steps the exported weights have
        had."""
        steps = self._ledger.step
        self._groups.close()
        await self._saves.finish()
        if why != "steps":
            if why == "rows" and self._grpo.val_at_end:
                self._metrics = {**self._metrics, **await self._validate()}
                self._report(StepReport(steps, None, self._groups.take_lost(), self._metrics))
            newest = self._saves.newest
            if steps and (newest is None or newest.step != steps):
                await self._save()
                await self._saves.finish()
        return await self._export()

    async def _export(self) -> int | None:
        target = self._settings.export
        if target is None:
            return None
        best = self._checkpoints.best() if self._checkpoints is not None else None
        with role_call("the policy", "export"):
            if best is not None and best.step != self._ledger.step:
                await self._policy.load(best.policy)
            await write_whole_folder(target, self._policy.export)
        return best.step if best is not None else self._ledger.step

    def _result(self, why: EndReason, exported: int | None) -> RunResult:
        best = self._checkpoints.best() if self._checkpoints is not None else None
        return RunResult(
            why=why,
            steps=self._ledger.step,
            n_started=self._ledger.n_started,
            n_trained=self._ledger.n_trained,
            lost={str(name): count for name, count in self._ledger.lost.items()},
            n_retries=self._ledger.n_retries,
            wait_share=_wait_share(self._policy_seconds),
            checkpoint=self._saves.newest.folder if self._saves.newest is not None else None,
            best=best.folder if best is not None else None,
            exported=exported,
        )


def _lost_durations(lost: Sequence[LostGroup]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {}
    for group in lost:
        if group.seconds is not None:
            for name in ("group", group.why):
                seconds.setdefault(name, []).append(group.seconds)
    return {name: value for why in sorted(seconds) for name, value in durations(f"lost/{why}_s", seconds[why])}


def _wait_share(times: Mapping[str, float]) -> float:
    """The share of the policy's time that it waited, 0 to 1. `times`: seconds by name."""
    spent = [times.get(name, 0.0) for name in POLICY_S]
    return sum(spent[:2]) / sum(spent) if sum(spent) else 0.0


def _first(errors: Sequence[BaseException]) -> BaseException:
    """The error that came first: the others are consequences of ending the rest."""
    first = errors[0]
    return _first(first.exceptions) if isinstance(first, BaseExceptionGroup) else first


def _with_hint(error: BaseException, last: Checkpoint | None) -> BaseException:
    """The error, with the checkpoint from which the run can go on; unchanged where that would not help, as for a wrong
    config or a bug."""
    if not isinstance(error, PaddockError) or isinstance(error, ConfigError | BugError):
        return error
    hint = f"`--resume` goes on from {last.folder}" if last is not None else "no checkpoint was stored yet"
    hinted = type(error)(f"{error.message} ({hint})", kind=error.kind, stage=error.stage, retryable=error.retryable)
    hinted.__cause__ = error
    return hinted
