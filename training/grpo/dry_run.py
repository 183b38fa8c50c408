"""The plan that `--dry-run` prints: processes and devices, the arithmetic of a batch, keys read other than written.

Law     nothing is started; servers and rows are checked as far as that goes. No value of the environment is shown. What
        belongs to the machine (variables, files, packages, GPUs, servers elsewhere, further machines) may be missing,
        and is listed.
Units   rollouts, rows (samples), tokens, steps.
Errors  ConfigError for what a run could start with nowhere, such as a server's settings.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from paddock.collect.identity import blank_secrets
from paddock.collect.rows import file_facts
from paddock.config import Note
from paddock.config.yaml_text import parse
from paddock.errors import ConfigError, PaddockError
from paddock.server.runtime import describe_servers
from paddock.training.core.curriculum import Curriculum
from paddock.training.grpo.config import ClusterConfig, TrainConfig
from paddock.training.grpo.environment import require_verdicts
from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.training.grpo.memory_sheet import memory_sheet, model_sizes, sheet_lines
from paddock.training.grpo.model_server import engine_settings
from paddock.training.grpo.pass_rates import pass_rates
from paddock.training.grpo.placement import ClusterNode, needs_of, place, placement_lines
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.preflight import gpu_problem, machine_problem, missing_packages, server_checks
from paddock.training.grpo.ray_session import ray_session
from paddock.training.grpo.read_config import RunConfig
from paddock.training.grpo.rows import TRAIN, VALIDATION, missing_files, n_rows_of, row_pools, rows_files, split_of

EXTERNAL = "external"
NEMO_GYM = "nemo_gym"
"""The implementations of a resources server elsewhere, and of one of NeMo-Gym's that is started here."""
_WIDTH = 16


def plan_text(read: RunConfig, out: Path) -> str:
    """The whole plan."""
    nodes = _nodes(read.config.cluster)
    missing = list(_missing(read, nodes))
    return "\n".join(
        [
            *_parts(read, out, nodes),
            *_changed_settings(read.config),
            *read.deviations,
            *_unread(read),
            *note_lines(read.notes),
            f"missing before a start ({len(missing)}):" if missing else "missing before a start: nothing",
            *(f"  {line}" for line in missing),
        ]
    )


def note_lines(notes: list[Note]) -> list[str]:
    """Lines about keys that were read other than written: moved keys one by one, inert ones by their reason."""
    moved = [note for note in notes if note.kind == "mapped"]
    lines = [f"read as ({len(moved)}):"] if moved else []
    lines += [f"  {note}" for note in moved]
    return [*lines, *inert_lines(notes)]


def inert_lines(notes: list[Note]) -> list[str]:
    """Lines about keys without an effect here, by their reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        if note.kind == "inert":
            reasons[note.text].append(note.key)
    if not reasons:
        return []
    count = sum(map(len, reasons.values()))
    return [
        f"says nothing here ({count}; --strict refuses it):",
        *(f"  {reason}: {', '.join(keys)}" for reason, keys in reasons.items()),
    ]


def _parts(read: RunConfig, out: Path, nodes: list[ClusterNode]) -> Iterator[str]:
    config = read.config
    yield _line("run", f"{read.name}, into {out}")
    yield from _processes(read)
    yield from _placement(read, nodes)
    yield from _batch(config)
    yield from _asynchrony(config)
    yield from _rows(read)
    yield from _ends(config)


def _line(head: str, text: str) -> str:
    return f"{head:<{_WIDTH}}{text}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _processes(read: RunConfig) -> Iterator[str]:
    policy = read.config.policy
    yield _line("driver", "this process: the loop, the buffer, checkpoints, metrics")
    torch = policy.torch_cfg
    shared = f", {torch.processes} processes share the weights (FSDP)" if torch.processes > 1 else ", one process"
    shared = f", on Megatron-core, {_layout(policy.megatron_cfg)}" if policy.megatron_cfg.enabled else shared
    threads = f", {torch.threads} threads each" if torch.device == "cpu" and torch.threads is not None else ""
    yield _line("policy", f"{policy.model_name}, {policy.precision}, device {torch.device}{shared}{threads}")
    if policy.router_replay.enabled:
        whose = (
            "the engine's, in each pass" if policy.router_replay.of_engine else "the policy's own, of before the step"
        )
        yield _line("experts", f"replayed ({policy.router_replay.mode}): {whose}")
    workers = read.config.cluster.rollout_workers
    how_many = "one process with" if workers == 1 else f"{workers} processes, each with"
    yield _line("rollout worker", f"{how_many} these servers:")
    checked = [server.name for server in server_checks(read.environment) if server.can_be_checked]
    described = {server.name: server for server in describe_servers(read.environment, checked)} if checked else {}
    written = parse(read.environment.to_yaml(), "composed config").tree
    for name, kind, implementation, _ in read.environment.instances.values():
        at = described[name].url if name in described else None
        where = f" at {at}" if at is not None else ""
        block = written[name][kind][implementation]
        if implementation == EXTERNAL:
            where = f", elsewhere: {block.get('base_url')}{_needs(block)}"
        elif implementation == NEMO_GYM:
            where = f", NeMo-Gym's {block.get('server')}, started here{_needs(block)}"
        yield f"  {name}: {kind} {implementation}{where}"
    yield _line("engines", _engines(read))
    yield from _memory(read)
    yield from _teachers(read)
    require_verdicts(read.environment, read.config.paddock.groups.member_timeout_s)


def _teachers(read: RunConfig) -> Iterator[str]:
    distillation = read.config.on_policy_distillation
    if not distillation.enabled:
        return
    distillation.require_teachers(read.environment)
    agents = [name for name, kind, _, _ in read.environment.instances.values() if kind == "agents"]
    scored = ", ".join(f"{agent} by {distillation.teacher_of(agent)}" for agent in agents)
    what = "added to the rewards' advantages" if distillation.with_rewards else "in place of the rewards' advantages"
    yield _line("teachers", f"servers that run already; {scored}; {what}")


def _memory(read: RunConfig) -> Iterator[str]:
    """The memory sheet where policy and engine share a GPU."""
    policy, settings = read.config.policy, _engine_settings(read)
    sizes = model_sizes(Path(policy.model_name))
    if not policy.generation.colocated.enabled or sizes is None or settings is None or settings.launch is None:
        return
    share = settings.launch.serve_kwargs.get("gpu_memory_utilization")
    has_reference = read.config.loss_fn.reference_policy_kl_penalty > 0
    first, *others = sheet_lines(memory_sheet(policy, sizes, has_reference=has_reference), share)
    yield _line("memory", first)
    yield from (f"  {line}" for line in others)


def _placement(read: RunConfig, nodes: list[ClusterNode]) -> Iterator[str]:
    """What runs where, node by node."""
    settings = _engine_settings(read)
    if settings is None:
        return
    try:
        lines = placement_lines(place(needs_of(read.config, settings.launch), nodes), nodes)
    except ConfigError as error:
        lines = [error.message]
    whose = "of the cluster" if nodes[0].address else "by arithmetic, no cluster was asked"
    yield _line("placement", f"{_count(len(nodes), 'node')}, {whose}")
    yield from (f"  {line}" for line in lines)


def _nodes(settings: ClusterConfig) -> list[ClusterNode]:
    """The nodes of the cluster; where there is none, as many as the config says."""
    if settings.address is not None:
        with suppress(PaddockError), ray_session(settings) as session:
            return session.nodes()
    numbers = range(1, settings.num_nodes + 1)
    return [ClusterNode(f"node {n}", id=str(n), gpus=settings.gpus_per_node, labels=None) for n in numbers]


def _layout(megatron: MegatronConfig) -> str:
    """How its processes share the weights; a size of 1 is left out."""
    sizes = {
        "tensor": megatron.tensor_model_parallel_size,
        "pipeline": megatron.pipeline_model_parallel_size,
        "context": megatron.context_parallel_size,
    }
    sizes["data"] = megatron.world_size // prod(sizes.values())
    shape = " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
    experts = megatron.expert_model_parallel_size
    count = megatron.world_size
    apart = f", experts over {experts}" if experts > 1 else ""
    own = megatron.fp8_cfg
    fp8 = f", matrices in fp8 ({own.fp8}, {own.fp8_recipe})" if own.enabled else ""
    return f"{count} {'process' if count == 1 else 'processes'}{f': {shape}' if shape else ''}{apart}{fp8}"


def _needs(block: Any) -> str:
    """What a server needs beside it."""
    return f"; needs {', '.join(block['needs'])}" if block.get("needs") else ""


def _missing(read: RunConfig, nodes: list[ClusterNode]) -> Iterator[str]:
    yield from map(str, read.unset_variables)
    shown = {f"${unset.variable}" for unset in read.unset_variables}
    for key, path in missing_files(read.config.data):
        if path not in shown:
            yield f"{key}: no file {path}"
    for server in server_checks(read.environment):
        yield from server.problems
    yield from _unplaced(read, nodes)
    yield from (f"package {name}, in {sys.executable}" for name in missing_packages(read.config))
    if (text := gpu_problem(read.config)) is not None:
        yield text
    if (text := machine_problem(read.config)) is not None:
        yield text


def _unread(read: RunConfig) -> list[str]:
    if not read.unread_keys:
        return []
    return [
        f"not read by the trainer or the environments that it was written for ({len(read.unread_keys)}):",
        *(f"  {unread.key}: {unread.reason}" for unread in read.unread_keys),
    ]


def _engine_settings(read: RunConfig) -> Any:
    """The settings of the model server; None where a variable in them is not set."""
    if not next(
        server for server in server_checks(read.environment) if server.name == read.model_server
    ).can_be_checked:
        return None
    return engine_settings(read.environment, read.model_server)


def _unplaced(read: RunConfig, nodes: list[ClusterNode]) -> Iterator[str]:
    """What the nodes lack for the roles of the run."""
    settings = _engine_settings(read)
    if settings is not None:
        try:
            place(needs_of(read.config, settings.launch), nodes)
        except ConfigError as error:
            yield error.message


def _engines(read: RunConfig) -> str:
    settings = _engine_settings(read)
    if settings is None:
        return "vLLM, as variables say that are not set"
    launch = settings.launch
    if launch is None:
        return f"vLLM that runs already, at {', '.join(settings.urls)}; weights are sent to it"
    gpus = f" of {_count(launch.gpus_per_replica, 'GPU')}" if launch.device != "cpu" else ""
    stages = f" in {launch.pipeline_parallel_size} stages" if launch.pipeline_parallel_size > 1 else ""
    return (
        f"vLLM, {_count(launch.replicas, 'replica')}{gpus}{stages}, device {launch.device}, {launch.dtype}, at most "
        f"{launch.max_model_len} tokens a sequence; weights come by {launch.weight_transfer}"
    )


def _batch(config: TrainConfig) -> Iterator[str]:
    grpo, policy = config.grpo, config.policy
    yield _line(
        "step",
        f"{grpo.num_prompts_per_step} prompts x {grpo.num_generations_per_prompt} generations = "
        f"{config.rollouts_per_step} rollouts, at most {config.rollouts_per_step * policy.max_total_sequence_length:,} "
        "tokens with one sample each",
    )
    if grpo.use_dynamic_sampling:
        yield _line(
            "sampling",
            f"groups without advantage do not fill a step, of at most {grpo.dynamic_sampling_max_gen_batches} times "
            f"{grpo.num_prompts_per_step} that are run for it; after that they do",
        )
    yield _line(
        "optimiser",
        f"{_count(config.optimizer_steps, 'step')} of {config.global_batch_size} rows, forward passes of "
        f"{policy.train_micro_batch_size}; {_rate(policy)}",
    )


def _rate(policy: PolicyConfig) -> str:
    if not policy.megatron_cfg.enabled:
        scheduled = ", scheduled" if policy.scheduler.parts else ""
        return f"{policy.optimizer.name.rpartition('.')[2]}, learning rate {policy.optimizer.kwargs.lr:g}{scheduled}"
    adam, scheduler = policy.megatron_cfg.optimizer, policy.megatron_cfg.scheduler
    rises, falls = scheduler.lr_warmup_iters, scheduler.lr_decay_style
    warm = f", from {scheduler.lr_warmup_init:g} in {_count(rises, 'step')}" if rises else ""
    decay = f", {falls} decay to {adam.min_lr:g}" if falls != "constant" else ""
    return f"Adam, learning rate {adam.lr:g}{warm}{decay}"


def _asynchrony(config: TrainConfig) -> Iterator[str]:
    grpo, async_grpo = config.grpo, config.grpo.async_grpo
    flight = f"groups begun and not trained on: at most {config.groups_in_flight}"
    if not grpo.max_age:
        yield _line("on-policy", f"each step trains on what its own weights sampled; {flight}")
        return
    how = "while rollouts run" if async_grpo.in_flight_weight_updates else "when running rollouts have ended"
    cache = "computed anew" if async_grpo.recompute_kv_cache_after_weight_updates else "kept"
    yield _line(
        "asynchronous",
        f"tokens at most {grpo.max_age} versions old; {flight}; weights are sent {how}, caches of running answers are "
        f"{cache}",
    )
    yield _line("long groups", f"{config.paddock.groups.age_policy}: {_long_groups(config)}")


def _long_groups(config: TrainConfig) -> str:
    """What becomes of groups that take long."""
    groups, max_age = config.paddock.groups, config.grpo.max_age
    if groups.age_policy == "target_step":
        return "each group has its step from its start, which waits for it, as in NeMo-RL; none is lost to its length"
    if groups.age_policy == "accept_late":
        return "steps wait for no group; one that is older is trained on all the same, and counted (buffer/late)"
    last = "the last is waited for" if groups.max_retries else "each is waited for"
    return (
        f"one begun with weights v that still runs after step v + {max_age} is cancelled and its row begun again, "
        f"{_count(groups.max_retries, 'time')} at most; {last}"
    )


def _rows(read: RunConfig) -> Iterator[str]:
    config = read.config
    missing = dict(missing_files(config.data))
    if TRAIN not in missing:
        yield _train_rows(read)
    held_out = config.data.validation
    if held_out is not None and VALIDATION not in missing:
        file = rows_files(config.data)[VALIDATION]
        yield _line("validation", f"{file}: {_count(file_facts(file).n_rows, 'row')}, {_when(config)}")
    elif config.data.train.split_validation_size and TRAIN not in missing:
        count = len(split_of(config.data).validation)
        yield _line("validation", f"{_count(count, 'row')} of that file, not trained on, {_when(config)}")
    for key, path in missing.items():
        when = f", {_when(config)}" if key == VALIDATION else ""
        yield _line("rows" if key == TRAIN else "validation", f"{path}, which is not here{when}")


def _train_rows(read: RunConfig) -> str:
    config = read.config
    count = n_rows_of(config)
    order = "in an order of its own each epoch" if config.data.shuffle else "in the file's order"
    steps = count * config.grpo.max_num_epochs // config.grpo.num_prompts_per_step
    file = rows_files(config.data)[TRAIN]
    pools = row_pools(config, read.environment)
    total = sum(pool.weight for pool in pools)
    parts = ", ".join(f"{pool.name} {pool.weight / total:.1%} ({_count(len(pool.rows), 'row')})" for pool in pools)
    weighed = f"; of the prompts: {parts}" if len(pools) > 1 else ""
    text = f"{file}: {count}, {order}; {config.grpo.max_num_epochs} epochs are {steps} steps{weighed}"
    return _line("rows", text + _curriculum(config, count))


def _curriculum(config: TrainConfig, n_rows: int) -> str:
    settings = config.paddock.curriculum
    if not settings.enabled:
        return ""
    pools = Counter(map(Curriculum(settings, seed=0, rates=(rates := pass_rates(config))).difficulty, rates))
    known = f" (measured before: {len(rates)} of {n_rows}, {pools['easy']} easy, {pools['hard']} hard)" if rates else ""
    easy, hard = f"{settings.easy_weight:.0%}", f"{settings.hard_weight:.0%}"
    return f"; easy rows come in {easy} of the rounds, hard ones in {hard}{known}"


def _when(config: TrainConfig) -> str:
    grpo = config.grpo
    delay = f" from step {grpo.val_start_at} on" if grpo.val_start_at > 0 else ""
    times = [
        ("before the first step", grpo.val_at_start),
        (f"every {grpo.val_period} steps{delay}", grpo.val_period > 0),
        ("after the last step", grpo.val_at_end),
    ]
    when = ", ".join(text for text, on in times if on) or "never"
    return f"{_count(grpo.val_num_generations_per_prompt, 'rollout')} each, {when}"


def _ends(config: TrainConfig) -> Iterator[str]:
    metric, threshold = config.grpo.stop_at_validation_metric, config.grpo.stop_at_validation_threshold
    early = f", or with the step after which validation/{metric} is {threshold:g} or more" if metric else ""
    yield _line("ends", f"after {config.grpo.max_num_steps} steps, or when the epochs are over{early}")
    rule = config.checkpointing
    if rule.enabled:
        by = f"the best {rule.keep_top_k} by {rule.metric}" if rule.metric else f"the newest {rule.keep_top_k}"
        which = by if rule.keep_top_k is not None else "all"
        yield _line("checkpoints", f"every {rule.save_period} steps; kept: {which}, and the newest")
    sinks = [("TensorBoard", config.logger.tensorboard_enabled), ("W&B", config.logger.wandb_enabled)]
    also = "".join(f", {name}" for name, on in sinks if on)
    yield _line("metrics", f"metrics.jsonl{also}; at the end summary.json, summary.md, plots")


def _changed_settings(config: TrainConfig) -> Iterator[str]:
    """Settings that are not their defaults; secrets are blank."""
    tree = blank_secrets(config.model_dump(mode="json", exclude_defaults=True, exclude={"paddock": {"recipe"}}))
    tree = {key: value for key, value in tree.items() if value != {}}
    yield "settings other than their defaults:"
    for path, value in _leaves(tree, ""):
        yield f"  {path} = {json.dumps(value)}"


def _leaves(tree: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        path = f"{above}{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value
