"""A run from its config to its end: start the processes, run the loop, report, end everything.

Order   the folder is locked and, but for a resumed run, new; then Ray, the servers with their engines, the policy.
Folder  `config.json` (secrets blanked), journals, `metrics.jsonl`, `checkpoints/`, `summary.json`, `export/`, `logs/`.
Resume  from the newest checkpoint, whatever ended the run before; what was written after it is removed.
Exit    0: the run is at its end; 130: interrupted, and the same with `--resume` goes on.
Errors  ConfigError before anything starts; whatever ended the run, once all its processes have ended.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.collect.folder import locked
from paddock.errors import ConfigError
from paddock.server.loops import loop_factory, spare_collector
from paddock.signals import cancel_on_signal
from paddock.training.core.flaws import FlawRules
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.journals import cut
from paddock.training.grpo.layout_check import require_layout
from paddock.training.grpo.loop import Loop, LoopSettings, RunResult
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.processes import RoleProcesses, local_ray
from paddock.training.grpo.read_config import RunConfig
from paddock.training.grpo.remote import start_policy, start_rollouts
from paddock.training.grpo.report import RunReporter
from paddock.training.grpo.roles import Policy, Rollouts
from paddock.training.grpo.rollouts import RowSettings, RunRollouts, RunRows
from paddock.training.grpo.rows import TRAIN, VALIDATION, n_rows_of, rows_files
from paddock.training.grpo.run_lock import claim
from paddock.training.grpo.worker import WorkerSettings
from paddock.types import JsonObject

EXPORT = "export"
LOGS = "logs"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


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
        reporter = RunReporter(read, out)
        spare_collector()
        try:
            with local_ray(out / LOGS) as processes, asyncio.Runner(loop_factory=loop_factory()) as runner:
                ended = runner.run(_run(read, plan, processes, reporter, resume=resume, wrap_roles=wrap_roles))
            reporter.end(ended)
        except (asyncio.CancelledError, KeyboardInterrupt):
            sys.stderr.write(f"interrupted: go on with --resume --out {out}\n")
            return 130
        finally:
            reporter.close()
    return 0


async def _run(
    read: RunConfig,
    plan: "_RunPlan",
    processes: RoleProcesses,
    reporter: RunReporter,
    *,
    resume: bool,
    wrap_roles: Callable[[Roles], Roles],
) -> RunResult:
    config, out = read.config, plan.folder
    checkpoints = _checkpoints(config, out)
    newest = checkpoints.newest() if checkpoints is not None and resume else None
    if newest is None:
        cut(out, {})
        if resume:
            sys.stderr.write(f"no checkpoint was stored by a run in {out}: it begins at its start\n")
    reporter.forget(newest.step if newest is not None else -1)
    with cancel_on_signal():
        try:
            policy, worker = await asyncio.gather(
                start_policy(
                    processes,
                    PolicySettings.of(config),
                    config.policy.n_processes,
                    plan.devices.policy,
                    config.paddock.policy_timeout_s,
                ),
                start_rollouts(processes, read.environment, plan.worker, plan.devices.rollouts),
            )
            roles = wrap_roles(Roles(RunRollouts(worker, plan.rows, out), policy))
            loop = Loop(plan.loop, *roles, reporter.report, checkpoints)
            return await loop.run(resume=resume)
        finally:
            await processes.end()


def _plan_run(read: RunConfig, out: Path) -> "_RunPlan":
    require_model(read.config.policy.model_name)
    require_layout(read.config.policy)
    rows = RunRows.read(read.environment, row_settings(read.config, out))
    devices = devices_of(read.config, os.environ.get(_VISIBLE))
    return _RunPlan(out.resolve(), rows, worker_settings(read), _loop_settings(read.config, out), devices)


def require_model(name: str) -> None:
    """ConfigError for a missing folder; what may be a hub name (`owner/model`) is not checked."""
    if (name[:1] in "./~" or name.count("/") > 1) and not Path(name).expanduser().is_dir():
        raise ConfigError(f"policy.model_name: there is no folder {name}", kind="model")


def worker_settings(read: RunConfig) -> WorkerSettings:
    config, detection = read.config, read.config.env.nemo_gym
    flaws = FlawRules(detection.invalid_tool_call_patterns, detection.thinking_tags)
    return WorkerSettings(config.grpo, config.paddock.groups, flaws, read.model_server)


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
    return RowSettings(
        run_id=hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:12],
        folder=out.resolve(),
        train_rows=files[TRAIN],
        validation_rows=files.get(VALIDATION),
        grpo=config.grpo,
        sampling=_given(training),
        validation_sampling=_given(validation),
    )


def _either(value: float | None, default: float) -> float:
    return default if value is None else value


def _given(params: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in params.items() if value is not None}


def _checkpoints(config: TrainConfig, out: Path) -> Checkpoints | None:
    settings = config.checkpointing
    if not settings.enabled:
        return None
    folder = settings.checkpoint_dir or out / "checkpoints"
    return Checkpoints(folder, keep_top_k=settings.keep_top_k, higher_is_better=settings.higher_is_better)


def _loop_settings(config: TrainConfig, out: Path) -> LoopSettings:
    return LoopSettings(
        grpo=config.grpo,
        groups=config.paddock.groups,
        n_rows=n_rows_of(config),
        max_length=config.policy.max_total_sequence_length,
        shuffle=config.data.shuffle,
        metric=config.checkpointing.metric,
        save_period=config.checkpointing.save_period,
        must_save_by_s=config.checkpointing.must_save_by_s,
        export=out / EXPORT,
    )


class Devices(NamedTuple):
    """Variables of the environment by which processes see their GPUs."""

    policy: Mapping[str, str]
    rollouts: Mapping[str, str]


class _RunPlan(NamedTuple):
    """The settings of all roles, made before anything starts."""

    folder: Path
    rows: RunRows
    worker: WorkerSettings
    loop: LoopSettings
    devices: Devices


def devices_of(config: TrainConfig, visible: str | None = None) -> Devices:
    """Which GPUs each role sees: the policy the first, one for each of its processes, engines the others. Without
    `cluster.gpus_per_node` all see all. `visible`: this process's own CUDA_VISIBLE_DEVICES."""
    count, taken = config.cluster.gpus_per_node, config.policy.n_processes
    if not count or config.policy.torch_cfg.device == "cpu":
        return Devices({}, {})
    if count <= taken:
        block = "megatron_cfg" if config.policy.megatron_cfg.enabled else "torch_cfg"
        raise ConfigError(
            f"cluster.gpus_per_node is {count}, of which the policy takes {taken} (policy.{block}.processes): "
            "none is left for engines",
            kind="gpus_missing",
        )
    listed = list(map(str, range(count))) if visible is None else [gpu.strip() for gpu in visible.split(",")]
    if len(listed) < count:
        raise ConfigError(f"cluster.gpus_per_node is {count}, but {_VISIBLE} names {len(listed)}", kind="gpus_missing")
    return Devices({_VISIBLE: ",".join(listed[:taken])}, {_VISIBLE: ",".join(listed[taken:count])})
