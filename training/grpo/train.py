"""A run from its config to its end: start the processes, run the loop, report, end everything.

Order   the folder is locked and, but for a resumed run, new; then Ray, a place for every role, the servers with their
        engines, the policy.
Folder  `config.json` (secrets blanked), journals, `metrics.jsonl`, `checkpoints/`, `summary.json`, `export/`, `logs/`.
        This process alone writes there, but for what the policy stores; `checkpointing.checkpoint_dir` has checkpoints
        and `export/` where it is given, and then it alone has to be shared with the nodes of the policy.
Resume  from the newest checkpoint, whatever ended the run before; what was written after it is removed. After an
        InfraError the run does it by itself, `paddock.restart` times, on the nodes that are there.
Exit    0: the run is at its end; 1: it is, and nothing could be trained on; 130: interrupted, and the same with
        `--resume` goes on.
Errors  ConfigError before anything starts; whatever ended the run, once all its processes have ended.
"""

import asyncio
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.collect.folder import FAILURES, locked
from paddock.collect.routing import Router
from paddock.config import Config
from paddock.errors import ConfigError, InfraError
from paddock.server.loops import loop_factory, spare_collector
from paddock.signals import cancel_on_signal
from paddock.training.core.flaws import FlawRules
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.environment import require_verdicts
from paddock.training.grpo.journals import cut
from paddock.training.grpo.layout_check import require_layout, require_nodes
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult
from paddock.training.grpo.model_server import engine_settings
from paddock.training.grpo.pass_rates import pass_rates
from paddock.training.grpo.placement import RoleNeed, needs_of
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.progress import status_lines
from paddock.training.grpo.read_config import RunConfig
from paddock.training.grpo.remote import start_policy, start_samplers
from paddock.training.grpo.report import RunReporter
from paddock.training.grpo.roles import Policy, Rollouts
from paddock.training.grpo.rollouts import RowSettings, RunRollouts, RunRows
from paddock.training.grpo.rows import TRAIN, VALIDATION, row_pools, rows_files, split_of
from paddock.training.grpo.run_lock import claim
from paddock.training.grpo.worker import WorkerSettings
from paddock.types import JsonObject

EXPORT = "export"
LOGS = "logs"


class Roles(NamedTuple):
    """The roles that the loop works with."""

    rollouts: Rollouts
    policy: Policy


def train(
    read: RunConfig, out: Path, *, resume: bool, wrap_roles: Callable[[Roles], Roles] = lambda roles: roles
) -> int:
    """Train; the exit code. `wrap_roles`: makes what the loop is given in place of the roles."""
    plan = _plan_run(read, out)
    with locked(out):
        claim(read, out, resume=resume)
        spare_collector()
        try:
            for restarts_left in reversed(range(1 + read.config.paddock.restart)):
                try:
                    ended = _train_once(read, plan, resume=resume, wrap_roles=wrap_roles)
                    break
                except InfraError as error:
                    if not restarts_left:
                        raise
                    sys.stderr.write(f"paddock train: {error}; it goes on by itself, {restarts_left} times at most\n")
                    resume = True
        except (asyncio.CancelledError, KeyboardInterrupt):
            sys.stderr.write(f"interrupted: go on with --resume --out {out}\n")
            return 130
    if ended.failure is not None:
        sys.stderr.write(f"paddock train: {ended.failure}: see {out / FAILURES}\n")
        return 1
    return 0


def _train_once(read: RunConfig, plan: "_RunPlan", *, resume: bool, wrap_roles: Callable[[Roles], Roles]) -> RunResult:
    reporter = RunReporter(read, plan.folder)
    try:
        with (
            open_processes(plan.folder / LOGS, read.config.cluster) as processes,
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            ended = runner.run(_run(read.config, plan, processes, reporter, resume=resume, wrap_roles=wrap_roles))
        reporter.end(ended)
        return ended
    finally:
        reporter.close()


async def _run(
    config: TrainConfig,
    plan: "_RunPlan",
    processes: RoleProcesses,
    reporter: RunReporter,
    *,
    resume: bool,
    wrap_roles: Callable[[Roles], Roles],
) -> RunResult:
    out = plan.folder
    checkpoints = _checkpoints(config, out)
    newest = checkpoints.newest() if checkpoints is not None and resume else None
    if newest is None:
        cut(out, {})
        if resume:
            sys.stderr.write(f"no checkpoint was stored by a run in {out}: it begins at its start\n")
    reporter.forget(newest.step if newest is not None else -1)
    with cancel_on_signal():
        try:
            placement = await processes.place(plan.needs, shared_folder(config, out))
            policy, samplers = await asyncio.gather(
                start_policy(processes, placement.policy, PolicySettings.of(config), config.paddock.policy_timeout_s),
                start_samplers(processes, placement, plan.environment, plan.worker),
            )
            rollouts = RunRollouts(samplers, plan.rows, out)
            loop = Loop(plan.loop, *wrap_roles(Roles(rollouts, policy)), reporter.report, checkpoints)

            def lines() -> Iterator[str]:
                return status_lines(loop.status(), rollouts.n_running, rollouts.last_failures)

            async with reporter.follow(lines):
                return await loop.run(resume=resume)
        finally:
            await processes.end()


def _plan_run(read: RunConfig, out: Path) -> "_RunPlan":
    config, environment = read.config, read.environment
    require_model(config.policy.model_name)
    require_layout(config.policy)
    require_nodes(config.policy, config.cluster)
    config.on_policy_distillation.require_teachers(environment)
    require_verdicts(environment, config.paddock.groups.member_timeout_s)
    return _RunPlan(
        folder=out.resolve(),
        rows=RunRows.read(environment, row_settings(config, out)),
        environment=environment,
        needs=needs_of(config, engine_settings(environment, read.model_server).launch),
        worker=worker_settings(read),
        loop=loop_settings(read, out),
    )


def require_model(name: str) -> None:
    """ConfigError for a missing folder; what may be a hub name (`owner/model`) is not checked."""
    if (name[:1] in "./~" or name.count("/") > 1) and not Path(name).expanduser().is_dir():
        raise ConfigError(f"policy.model_name: there is no folder {name}", kind="model")


def worker_settings(read: RunConfig) -> WorkerSettings:
    config, detection = read.config, read.config.env.nemo_gym
    flaws = FlawRules(detection.invalid_tool_call_patterns, detection.thinking_tags, config.reward_penalties)
    tokenizer = Path(config.policy.tokenizer.name or config.policy.model_name).expanduser()
    distillation = config.on_policy_distillation
    return WorkerSettings(config.grpo, config.paddock.groups, flaws, read.model_server, distillation, tokenizer)


def row_settings(config: TrainConfig, out: Path) -> RowSettings:
    generation = config.policy.generation
    limits = {"max_output_tokens": generation.max_new_tokens}
    training = {"temperature": generation.temperature, "top_p": generation.top_p, **limits}
    validation = {
        "temperature": _either(generation.val_temperature, generation.temperature),
        "top_p": _either(generation.val_top_p, generation.top_p),
        "top_k": generation.val_top_k,
        **limits,
    }
    files = rows_files(config.data)
    held_out = split_of(config.data).validation or None
    return RowSettings(
        run_id=hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:12],
        folder=out.resolve(),
        train_rows=files[TRAIN],
        validation_rows=files[TRAIN] if held_out else files.get(VALIDATION),
        held_out=held_out,
        grpo=config.grpo,
        sampling=_given(training),
        validation_sampling=_given(validation),
        seeded=generation.seeded,
    )


def _either(value: float | None, default: float) -> float:
    return default if value is None else value


def _given(params: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in params.items() if value is not None}


def shared_folder(config: TrainConfig, out: Path) -> Path:
    """The folder that this process and the policy write into: checkpoints, and the exported weights."""
    settings = config.checkpointing
    return (settings.checkpoint_dir if settings.enabled and settings.checkpoint_dir else out).resolve()


def _checkpoints(config: TrainConfig, out: Path) -> Checkpoints | None:
    settings = config.checkpointing
    if not settings.enabled:
        return None
    folder = shared_folder(config, out) if settings.checkpoint_dir else out.resolve() / "checkpoints"
    return Checkpoints(folder, keep_top_k=settings.keep_top_k, higher_is_better=settings.higher_is_better)


def loop_settings(read: RunConfig, out: Path) -> LoopSettings:
    config = read.config
    return LoopSettings(
        grpo=config.grpo,
        groups=config.paddock.groups,
        pools=row_pools(config, read.environment),
        max_length=config.policy.max_total_sequence_length,
        curriculum=config.paddock.curriculum,
        pass_rates=pass_rates(config),
        environments={agent.name: agent.environment for agent in Router(read.environment).agents.values()},
        shuffle=config.data.shuffle,
        metric=config.checkpointing.metric,
        save_period=config.checkpointing.save_period,
        save_in_background=config.checkpointing.is_async,
        must_save_by_s=config.checkpointing.must_save_by_s,
        distillation=config.on_policy_distillation if config.on_policy_distillation.enabled else None,
        replays_experts=config.policy.router_replay.of_engine,
        export=shared_folder(config, out) / EXPORT,
    )


class _RunPlan(NamedTuple):
    """The settings of all roles, made before anything starts."""

    folder: Path
    rows: RunRows
    environment: Config
    needs: list[RoleNeed]
    worker: WorkerSettings
    loop: LoopSettings
