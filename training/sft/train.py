"""A fine-tuning run from its config to its end: choose rollouts, start the policy's processes, train, report, export.

Folder  `config.json`, `metrics.jsonl`, `checkpoints/`, `summary.json`, `logs/`, `export/`: the best weights by the
        held-out loss, in the format of Hugging Face, which the next run takes as `policy.model_name`.
Resume  from the newest checkpoint, with the config and the rollouts that the run was started with.
Exit    0: the run is at its end; 130: interrupted, and the same with `--resume` goes on.
Errors  ConfigError before anything starts; whatever ended the run, once all its processes have ended.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paddock.collect.folder import locked, write_json
from paddock.collect.identity import blank_secrets
from paddock.collect.reverify import find_rollouts
from paddock.collect.rows import file_facts
from paddock.server.loops import loop_factory
from paddock.signals import cancel_on_signal
from paddock.tokens.vocabulary import Vocabulary
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.layout_check import require_layout, require_nodes
from paddock.training.grpo.metrics_log import MetricsLog
from paddock.training.grpo.placement import ENGINES, ROLLOUTS, RoleNeed, policy_need
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.progress import Progress
from paddock.training.grpo.remote import start_policy
from paddock.training.grpo.run_lock import claim_folder
from paddock.training.grpo.sinks import Sinks, make_sinks
from paddock.training.grpo.train import EXPORT, LOGS, require_model
from paddock.training.sft.choice import ChosenRollouts, choose, fates_text, no_check, samples_in
from paddock.training.sft.config import SftConfig
from paddock.training.sft.loop import SftLoop, SftLoopSettings, SftResult, SftSteps
from paddock.training.sft.read_config import SftRunConfig
from paddock.training.sft.samples import SftSample
from paddock.training.sft.vocabulary_check import VocabularyCheck
from paddock.types import JsonObject

SUMMARY = "summary.json"
CHANGEABLE_KEYS = (
    "sft.sft.max_num_",
    "sft.sft.val_",
    "sft.sft.policy_timeout_s",
    "sft.checkpointing.keep_top_k",
    "sft.checkpointing.save_period",
    "sft.checkpointing.is_async",
    "sft.checkpointing.checkpoint_must_save_by",
    "sft.logger",
    "sft.cluster",
    "sft.policy.torch_cfg",
    "sft.policy.train_micro_batch_size",
    "sft.policy.logprob_chunk_size",
    "sft.policy.sequence_packing",
    "sft.policy.dynamic_batching",
    "sft.policy.dtensor_cfg.activation_checkpointing",
    "sft.policy.dtensor_cfg.cpu_offload",
)
"""Keys that may differ in a resumed run."""


class SftPlan(NamedTuple):
    """What a run does, made before anything starts."""

    chosen: ChosenRollouts
    trained: list[SftSample]
    held_out: list[SftSample]
    steps: SftSteps
    n_steps: int


def make_plan(config: SftConfig) -> SftPlan:
    """Choose the rollouts, and count the steps."""
    require_model(config.policy.model_name)
    require_layout(config.policy)
    require_nodes(config.policy, config.cluster)
    chosen = _choose(config)
    trained = samples_in(chosen.trained)
    steps = SftSteps(len(trained), config.batch_size, config.sft.seed, config.data.shuffle)
    n_steps = steps.per_epoch * config.sft.max_num_epochs
    return SftPlan(
        chosen, trained, samples_in(chosen.held_out), steps, min(n_steps, config.sft.max_num_steps or n_steps)
    )


def tokenizer_folder(config: SftConfig) -> Path | None:
    """The folder of the policy's tokenizer; None: it has a name alone, so that the ids' vocabulary is not checked."""
    folder = Path(config.policy.tokenizer.name or config.policy.model_name).expanduser()
    return folder if folder.is_dir() else None


def sft(read: SftRunConfig, out: Path, *, resume: bool) -> int:
    """Train; the exit code."""
    plan = make_plan(read.config)
    sys.stderr.write(f"{fates_text(plan.chosen.fates)}\n")
    with locked(out):
        given = {"sft": read.config.model_dump(mode="json", exclude_defaults=True)}
        current, checkpoints = _identity(read.config), _shared_checkpoints(read.config)
        claim_folder(out, current, checkpoints, CHANGEABLE_KEYS, given, resume=resume)
        try:
            result = _train(read, plan, out, resume=resume)
        except (asyncio.CancelledError, KeyboardInterrupt):
            sys.stderr.write(f"interrupted: go on with --resume --out {out}\n")
            return 130
    losses = ", ".join(f"{loss:.4g} after {step}" for step, loss in sorted(result.held_out.items()))
    held_out = f"; held-out loss in nats a token, by steps: {losses}" if losses else ""
    sys.stderr.write(f"{result.steps} steps{held_out}; weights after {result.exported} steps: {out / EXPORT}\n")
    return 0


def _choose(config: SftConfig) -> ChosenRollouts:
    folder = tokenizer_folder(config)
    check = VocabularyCheck(Vocabulary.load(folder)).require if folder is not None else no_check
    max_length = config.policy.max_total_sequence_length
    return choose(config.data, seed=config.sft.seed, max_length=max_length, require_vocabulary=check)


def _identity(config: SftConfig) -> JsonObject:
    files = [find_rollouts(Path(source).expanduser()) for source in config.data.rollouts]
    facts = {str(file.resolve()): f"sha256 {file_facts(file).sha256[:16]}" for file in files}
    return {"sft": blank_secrets(config.model_dump(mode="json")), "rollouts": facts}


def _shared_checkpoints(config: SftConfig) -> Path | None:
    return config.checkpointing.checkpoint_dir if config.checkpointing.enabled else None


def _train(read: SftRunConfig, plan: SftPlan, out: Path, *, resume: bool) -> SftResult:
    reporter = _Reporter(read.config, plan, out)
    try:
        with (
            open_processes(out / LOGS, read.config.cluster) as processes,
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            result = runner.run(_run(read.config, plan, processes, reporter, out.resolve(), resume=resume))
        reporter.end(read.name, result)
        return result
    finally:
        reporter.close()


async def _run(
    config: SftConfig, plan: SftPlan, processes: RoleProcesses, reporter: "_Reporter", out: Path, *, resume: bool
) -> SftResult:
    checkpoints = _checkpoints(config, out)
    newest = checkpoints.newest() if checkpoints is not None and resume else None
    if resume and newest is None:
        sys.stderr.write(f"no checkpoint was stored by a run in {out}: it begins at its start\n")
    reporter.forget(newest.step if newest is not None else -1)
    shared = _shared_checkpoints(config) or out
    with cancel_on_signal():
        try:
            needs = [policy_need(config.policy, config.cluster), RoleNeed(ENGINES, 0), RoleNeed(ROLLOUTS, 0)]
            placement = await processes.place(needs, shared.resolve())
            policy = await start_policy(
                processes, placement.policy, config.policy_settings, config.sft.policy_timeout_s
            )
            settings = _loop_settings(config, plan, shared.resolve() / EXPORT)
            loop = SftLoop(settings, policy, plan.trained, plan.held_out, reporter.report, checkpoints)
            return await loop.run(newest)
        finally:
            await processes.end()


def _checkpoints(config: SftConfig, out: Path) -> Checkpoints | None:
    settings = config.checkpointing
    if not settings.enabled:
        return None
    folder = settings.checkpoint_dir or out / "checkpoints"
    return Checkpoints(folder.resolve(), keep_top_k=settings.keep_top_k, higher_is_better=settings.higher_is_better)


def _loop_settings(config: SftConfig, plan: SftPlan, export: Path) -> SftLoopSettings:
    return SftLoopSettings(
        steps=plan.steps,
        n_steps=plan.n_steps,
        val_period=config.sft.val_period,
        val_at_start=config.sft.val_at_start,
        save_period=config.checkpointing.save_period,
        metric=config.checkpointing.metric,
        export=export,
        must_save_by_s=config.checkpointing.must_save_by_s,
        save_in_background=config.checkpointing.is_async,
    )


class _Reporter:
    """The reports of one start of a run. `forget` is called first, `close` always."""

    def __init__(self, config: SftConfig, plan: SftPlan, out: Path) -> None:
        self._plan = plan
        self._out = out
        self._log = MetricsLog(out)
        self._sinks = Sinks(make_sinks(config.logger, out))
        self._every_s = config.logger.progress_every_s
        self._progress: Progress | None = None
        self._started = time.monotonic()

    def forget(self, after: int) -> None:
        self._log.forget(after)
        self._sinks.open(after)
        self._progress = Progress(self._plan.n_steps, every_s=self._every_s)

    def report(self, steps: int, metrics: Mapping[str, float]) -> None:
        none: JsonObject = {"groups": [], "dropped": [], "lost": []}
        wall_s = time.monotonic() - self._started
        self._log.append({"step": steps, "trained": steps > 0, **none, "wall_s": wall_s, "metrics": dict(metrics)})
        self._sinks.write(steps, metrics)
        if self._progress is not None:
            self._progress.report(steps, metrics)

    def end(self, name: str, result: SftResult) -> None:
        chosen, lines = self._plan.chosen, self._log.lines()
        losses = {
            str(line.step): line.metrics["validation/loss"] for line in lines if "validation/loss" in line.metrics
        }
        write_json(
            self._out / SUMMARY,
            {
                "name": name,
                "steps": result.steps,
                "rollouts": {agent: dict(sorted(counts.items())) for agent, counts in sorted(chosen.fates.items())},
                "samples": len(self._plan.trained),
                "tokens": sum(sample.tokens for sample in self._plan.trained),
                "held_out_loss": losses,
                "exported_step": result.exported,
            },
        )

    def close(self) -> None:
        self._sinks.close()
        if self._progress is not None:
            self._progress.close()
