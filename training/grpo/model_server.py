"""The servers of a run: what `env.nemo_gym` composes, with a vLLM server in place of its model server.

Law     `policy.generation.vllm` is laid over the model server that is named `policy_model`, or is the only one that
        agents call. One of another implementation, whose wire carries no exact tokens, gives way to `vllm`; its
        settings of prompts and sampling are kept. Settings that nothing gives follow from `policy`: model,
        tokenizer, longest sequence, type of the weights, and how they are sent.
Sampling training samples from the whole distribution at `policy.generation.temperature`, for of no other the trainer
        knows the log-probs: what a row or a harness says of cuts and penalties is taken away, and a server that says
        otherwise (`sampling_overrides` stand over everything) is refused. So is a seed: with one, the members of a
        group would all say the same. With `policy.generation.seeded` each member's row has one of its own.
Errors  ConfigError: agents that ask several model servers, engines that can't take turns with the policy, and all that
        `paddock.config.load` refuses.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddock.config import Config, Note, load, resolve_class
from paddock.config.trees import copy_tree, merge
from paddock.config.yaml_text import dump, parse
from paddock.errors import ConfigError
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.preflight import DRIVER
from paddock.types import JsonObject
from paddock.types.request_fields import SAMPLING

KIND = "models_servers"
VLLM = "vllm"
IN_PROCESS = "paddock.models_servers.vllm.worker_server:WorkerVllmServer"
"""The same in the process of a rollout worker."""
DEFAULT_NAME = "policy_model"
_WIRE = {"base_url", "api_key", "model", "engine", "request_token_ids", "upstream_api", "extra_body"}
"""Fields of another model server that say where it is and how it is spoken to, not what it does."""
_ONE_PROCESS_KEYS = frozenset(("base_url", "launch", "python", "host", "port"))
"""Fields of a model server that say where its engines are, and where it is itself."""
_UNSET = tuple(name for name in SAMPLING if name not in ("temperature", "top_p", "stop"))
"""Sampling parameters that nobody sets in training; null: the engine's own."""
_COLLECTION_KEYS = frozenset(
    ("out", "rows", "split", "repeats", "limit", "slice", "shard", "concurrency", "deadline_s", "progress_every_s")
)
"""Keys of `eval` that say which rollouts there are, and when."""
_ORIGIN = "env.nemo_gym"


class RunServers(NamedTuple):
    environment: Config
    model_server: str
    notes: list[Note]


def compose_servers(
    beside: JsonObject, body: JsonObject, config: TrainConfig, overrides: Sequence[str], *, plan: bool = False
) -> RunServers:
    """The servers of a run. `body`: the servers' part of `env.nemo_gym`; `beside`: what interpolations in it may read
    besides. `plan`: another machine will run them."""
    # An override may be of the model server that is only made here.
    draft = _load(beside, body, [text if text.startswith(("+", "~")) else f"+{text}" for text in overrides], servers=())
    name = _model_server(draft)
    current = _block(draft, name)
    ours = current.implementation == VLLM
    adopted = _AdoptedFields({}, []) if ours else _adopted_fields(name, current)
    merged = merge(adopted.block, config.policy.generation.vllm)
    merged = merge(
        _settings_from_policy(config, merge(current.block if ours else {}, merged), has_gpus=_has_gpus(config, plan)),
        merged,
    )
    _require_whole(name, merge(current.block if ours else {}, merged))
    added = merge(body.get(name) or {}, {KIND: {VLLM: merged}})
    dropped = [] if ours or current.implementation is None else [f"~{name}.{KIND}.{current.implementation}"]
    environment = _load(beside, {**body, name: added}, [*overrides, *dropped], servers=None)
    if config.policy.generation.colocated.enabled:
        _require_one_engine(name, _block(environment, name).block)
    if config.policy.router_replay.of_engine and _block(environment, name).block.get("routed_experts") is not True:
        raise ConfigError(
            f"`{name}.{KIND}.{VLLM}.routed_experts`: policy.router_replay replays the engine's experts, which have to "
            "be recorded: take it out, or set policy.router_replay.mode to R2",
            kind="config_invalid",
        )
    return RunServers(environment, name, [*_notes(environment), *adopted.notes])


def engine_settings(environment: Config, name: str) -> Any:
    """The settings of the model server that is trained."""
    return environment.settings(name, resolve_class(environment.instance(name).implementation, KIND).config_type)


def with_launch(config: Config, name: str, fields: JsonObject) -> str:
    """The config of the servers as YAML, where the model server launches its vLLMs with these settings over its own."""
    if not fields:
        return config.to_yaml()
    tree: Any = parse(config.to_yaml(), "composed config").tree
    tree[name][KIND][VLLM]["launch"].update(fields)
    return dump(tree)


class SharedEngines(NamedTuple):
    """Engines that a rollout worker's own model server asks."""

    url: str
    """Of the model server that has started them, on the worker's node."""
    token: str
    role: str
    """The worker's."""
    n_workers: int
    """Workers there, which share `max_concurrency`."""


def with_own_model_server(config: Config, name: str, engines: SharedEngines) -> Config | None:
    """The config of the servers with the trained model server in the process of its agents, before the same engines.
    None where it can't be: the parsers of answers are in another environment of Python than this one."""
    settings = engine_settings(config, name)
    if settings.python is not None and _environment_of(settings.python) != _environment_of(Path(sys.executable)):
        return None
    tree: Any = parse(config.to_yaml(), "composed config").tree
    (block,) = tree[name][KIND].values()
    kept = {key: value for key, value in block.items() if key not in _ONE_PROCESS_KEYS}
    if settings.turn_store.folder is not None:
        kept["turn_store"] = {**block["turn_store"], "folder": str(settings.turn_store.folder / engines.role)}
    kept |= {
        "engines_of": {"url": engines.url, "token": engines.token},
        "max_concurrency": -(-settings.max_concurrency // engines.n_workers),
    }
    tree[name] = {KIND: {IN_PROCESS: kept}}
    return Config.from_yaml(dump(tree))


def _environment_of(python: Path) -> Path:
    """The folder of an interpreter's programs: an environment has one, whatever its interpreter is a link to."""
    return python.expanduser().parent.resolve()


class _ModelServerBlock(NamedTuple):
    implementation: str | None
    """None: the config has no model server yet."""
    block: JsonObject
    """Unresolved."""


def _load(beside: JsonObject, body: JsonObject, overrides: Sequence[str], servers: Sequence[str] | None) -> Config:
    try:
        return load([], overrides, extra={**beside, "env": {"nemo_gym": body}}, servers=servers)
    except ConfigError as error:
        raise ConfigError(error.message.replace("extra: ", f"{_ORIGIN}: "), kind=error.kind) from error


def _model_server(draft: Config) -> str:
    """The name of the model server that is trained. One that no agent calls is another's, such as a judge's."""
    tree: Any = parse(draft.to_yaml(), "composed config").tree
    agents = [name for name, instance in draft.instances.items() if instance.kind == "agents"]
    blocks = [tree[name]["agents"][draft.instances[name].implementation] or {} for name in agents]
    called = {named.get("name") for block in blocks if isinstance(named := block.get("model_server"), dict)}
    servers = [name for name, instance in draft.instances.items() if instance.kind == KIND]
    names = [name for name in servers if name in called] if agents else servers
    usual = DEFAULT_NAME in {*servers, *called} or not names
    if not usual and len(names) > 1:
        raise ConfigError(
            f"env.nemo_gym has several model servers ({', '.join(names)}): name the trained one `{DEFAULT_NAME}`",
            kind="config_invalid",
        )
    trained = DEFAULT_NAME if usual else names[0]
    others = [name for name in names if name != trained] if agents else []
    if others:
        raise ConfigError(
            f"env.nemo_gym: agents ask {', '.join(others)} too, but a run trains one model server, `{trained}`, and "
            f"sends weights to no other: let those agents ask `{trained}`, or leave them out",
            kind="config_invalid",
        )
    return trained


def _block(draft: Config, name: str) -> _ModelServerBlock:
    if name not in draft.instances:
        return _ModelServerBlock(None, {})
    implementation = draft.instances[name].implementation
    tree: Any = parse(draft.to_yaml(), "composed config").tree
    return _ModelServerBlock(implementation, copy_tree(tree[name][KIND][implementation] or {}))


class _AdoptedFields(NamedTuple):
    block: JsonObject
    notes: list[Note]


def _adopted_fields(name: str, current: _ModelServerBlock) -> _AdoptedFields:
    """The settings of a server of another implementation that hold for ours."""
    if current.implementation is None:
        return _AdoptedFields({}, [])
    fields = set(resolve_class(VLLM, KIND).config_type.model_fields) - _WIRE
    block = {key: value for key, value in current.block.items() if key in fields}
    where = f"{name}.{KIND}.{current.implementation}"
    if current.block.get("extra_body"):
        raise ConfigError(
            f"`{where}.extra_body`: is not sent to the engines of a run; say it in policy.generation.vllm, as "
            "chat_template_kwargs or sampling_overrides",
            kind="config_invalid",
        )
    others = sorted(set(current.block) - fields - _WIRE)
    notes = [Note(_ORIGIN, where, "mapped", f"`{name}.{KIND}.{VLLM}`, the engines of the run")]
    notes += [Note(_ORIGIN, f"{where}.{key}", "inert", "the engines of the run take its place") for key in others]
    return _AdoptedFields(block, notes)


def _settings_from_policy(config: TrainConfig, block: JsonObject, *, has_gpus: bool) -> JsonObject:
    """Settings of the model server that follow from the policy's and that neither block gives."""
    policy = config.policy
    fields: JsonObject = {"model": config.policy.model_name, "python": "${oc.env:PADDOCK_VLLM_PYTHON,null}"}
    if policy.tokenizer.name not in (None, policy.model_name):
        fields["tokenizer"] = policy.tokenizer.name
    if policy.generation.max_new_tokens not in (None, policy.max_total_sequence_length):
        fields["max_tokens_per_turn"] = policy.generation.max_new_tokens
    overrides: Any = block.get("sampling_overrides") or {}
    own = {"top_k": policy.generation.val_top_k is not None, "seed": policy.generation.seeded}
    unset = [key for key in _UNSET if key not in overrides and not own.get(key)]
    out = {key: value for key, value in fields.items() if key not in block or key == "model"}
    stops = {"stop_token_ids": policy.generation.stop_token_ids, "stop": policy.generation.stop_strings}
    ends = {key: list(value) for key, value in stops.items() if value is not None}
    if policy.router_replay.of_engine:
        out["routed_experts"] = True
    out["sampling_overrides"] = {**dict.fromkeys(unset), **ends}
    if "model" in policy.generation.vllm:
        out.pop("model")
    if block.get("base_url") is None:
        launch: Any = block.get("launch") or {}
        usual = {
            "dtype": policy.precision,
            "max_model_len": policy.max_total_sequence_length,
            "weight_transfer": _transfer(config, launch, has_gpus),
        }
        out["launch"] = {key: value for key, value in usual.items() if launch.get(key) is None}
        if policy.generation.colocated.enabled and _on_gpu(config, launch, has_gpus):
            out["launch"]["serve_kwargs"] = {"enable_sleep_mode": True, **(launch.get("serve_kwargs") or {})}
    return out


def _require_whole(name: str, block: JsonObject) -> None:
    overrides: Any = block.get("sampling_overrides") or {}
    wrong = [
        key for key in overrides if key in ("temperature", "top_p") or (key in _UNSET and overrides[key] is not None)
    ]
    if wrong:
        raise ConfigError(
            f"`{name}.{KIND}.{VLLM}.sampling_overrides.{wrong[0]}`: training samples every answer anew, "
            "from the whole distribution at policy.generation.temperature, the only one whose log-probs it knows: take "
            "it out (validations: policy.generation.val_temperature, val_top_p, val_top_k)",
            kind="config_invalid",
        )
    launch: Any = block.get("launch") or {}
    if launch.get("weight_transfer") == "nccl":
        raise ConfigError(
            f"`{name}.{KIND}.{VLLM}.launch.weight_transfer`: vLLM's own nccl takes all weights in one call, which "
            "nothing ends: leave it out, or set paddock_nccl",
            kind="config_invalid",
        )


def _require_one_engine(name: str, block: JsonObject) -> None:
    """ConfigError for engines that can't take turns with the policy. `block`: unresolved."""
    launch: Any = block.get("launch") or {}
    where = f"`{name}.{KIND}.{VLLM}"
    if block.get("base_url") is not None:
        raise ConfigError(
            f"{where}.base_url`: policy.generation.colocated.enabled needs a vLLM that the run starts: leave it out",
            kind="config_invalid",
        )
    for key in ("replicas", "gpus_per_replica"):
        if launch.get(key, 1) not in (None, 1) and isinstance(launch[key], int):
            raise ConfigError(
                f"{where}.launch.{key}`: policy.generation.colocated.enabled is for one vLLM of one GPU: set it to 1",
                kind="config_invalid",
            )


def _has_gpus(config: TrainConfig, plan: bool) -> bool:
    """Whether the machines of the run have GPUs; for a plan those are the recipe's."""
    if config.cluster.address is not None:
        return config.cluster.gpus_per_node > 0
    return DRIVER.exists() or (plan and config.cluster.gpus_per_node > 0)


def _transfer(config: TrainConfig, launch: Any, has_gpus: bool) -> str:
    """NCCL where policy and engines have GPUs of their own; on one GPU it refuses two ranks."""
    apart = not config.policy.generation.colocated.enabled
    return "paddock_nccl" if apart and _on_gpu(config, launch, has_gpus) else "gloo"


def _on_gpu(config: TrainConfig, launch: Any, has_gpus: bool) -> bool:
    devices = {config.policy.torch_cfg.device, launch.get("device", "auto")}
    return not ("cpu" in devices or (devices == {"auto"} and not has_gpus))


def _notes(environment: Config) -> list[Note]:
    """The notes of an environment: without those about its trainer, with its keys of a collection, which have no
    effect here."""
    notes = [
        note._replace(where=_ORIGIN if note.where == "extra" else note.where)
        for note in environment.notes
        if note.kind != "trainer"
    ]
    collection = [key for key in environment.top("eval") or {} if key in _COLLECTION_KEYS]
    return notes + [
        Note(_ORIGIN, f"eval.{key}", "inert", "a run's rows and steps are `data`'s and `grpo`'s") for key in collection
    ]
