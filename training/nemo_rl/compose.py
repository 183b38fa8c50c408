"""Makes the config of our servers from NeMo-RL's dictionary of environments.

Source  NVIDIA-NeMo/RL, `nemo_rl/environments/nemo_gym.py`: `env.nemo_gym` without the trainer's own keys, and what
        `_spinup` adds to it: the policy's name, key and URLs, ports, limits of connections, the head server.
Law     published `config_paths` compose our servers through the alias table. A key without an effect here is a note, an
        unknown one is refused; so is a server, but for what NeMo-Gym does not take for one: a block without an
        `entrypoint`, such as recipes inherit for files that they do not name. The policy is called at NeMo-RL's chat
        server, which splices: `CONFIG_STAND_INS`. All servers run in the actor's process and listen, where they do, on
        loopback: its `default_host` says nothing.
Errors  ConfigError; also where an agent asks a server whose answers have no ids: all its samples would be masked.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.collect import EvalSettings
from paddock.collect.routing import Router
from paddock.config import KINDS, Config, Note, alias_table, implementations, load, resolve_class, validate
from paddock.errors import ConfigError
from paddock.types import JsonObject

CONFIG_STAND_INS = {
    "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml": "models_servers/openai/configs/nemo_rl.yaml"
}
"""Files of NeMo-Gym, and the files of ours that stand for them under NeMo-RL."""
DUMMY_KEY = "dummy_key"
"""NeMo-RL's chat server asks for no key; its clients send one."""
_COLLECTION_KEYS = frozenset(
    ("rows", "split", "agent", "repeats", "limit", "slice", "shard", "strict_rows", "deadline_s", "progress_every_s")
)
"""Keys of `eval` that choose rollouts, which the trainer does here."""
_WHERE = "env.nemo_gym"


class NemoRlEnvironment(NamedTuple):
    """The environment of a NeMo-RL run: its servers, and how rollouts are run."""

    config: Config
    attempts: EvalSettings
    """How often a rollout is attempted, and where attempts are recorded."""
    max_in_flight: int | None
    """Rollouts in flight; None: as many as the trainer asks for."""
    notes: list[Note]
    """Keys that were read other than written, for the log."""


def compose(given: Mapping[str, Any]) -> NemoRlEnvironment:
    """The environment of a dictionary, which is plain or OmegaConf's. ConfigError for one that can't be served."""
    body, notes = _drop_unserved(_plain(given))
    unused = [Note(_WHERE, "default_host", "inert", "servers of one process call each other, and listen on loopback")]
    notes += unused if body.pop("default_host", None) is not None else []
    try:
        config = load([], extra={"env": {"nemo_gym": body}}, stand_ins=CONFIG_STAND_INS)
    except ConfigError as error:
        raise ConfigError(error.message.replace("extra: ", f"{_WHERE}: "), kind=error.kind) from error
    eval_block = config.top("eval") or {}
    attempts = validate(EvalSettings, eval_block, "eval")
    names = list(Router(config).agents)
    config.require(config.needed(names))
    _require_ids(config)
    notes += [note for note in config.notes if note.kind != "trainer"]
    notes += [
        Note(_WHERE, f"eval.{key}", "inert", "rows come from the trainer")
        for key in eval_block
        if key in _COLLECTION_KEYS
    ]
    return NemoRlEnvironment(config, attempts, attempts.concurrency if "concurrency" in eval_block else None, notes)


def policy_keys(model_name: str, base_urls: object) -> JsonObject:
    """The keys that `_spinup` adds to the dictionary."""
    return {"policy_model_name": model_name, "policy_api_key": DUMMY_KEY, "policy_base_url": base_urls}


def _plain(given: Mapping[str, Any]) -> JsonObject:
    if type(given).__module__.partition(".")[0] == "omegaconf":
        from omegaconf import OmegaConf

        tree: Any = OmegaConf.to_container(given, resolve=False)
        return dict(tree)
    return dict(given)


def _drop_unserved(body: JsonObject) -> tuple[JsonObject, list[Note]]:
    """The dictionary without blocks of which NeMo-Gym would serve nothing, and notes about these."""
    no_servers = [key for key, value in body.items() if isinstance(value, dict) and _is_no_server(value)]
    text = "no server: nothing here has its name, and without `entrypoint` NeMo-Gym serves none either"
    served = {key: value for key, value in body.items() if key not in no_servers}
    return served, [Note(_WHERE, key, "inert", text) for key in no_servers]


def _is_no_server(value: JsonObject) -> bool:
    table = alias_table()
    kinds = {key: table.kind(key) for key in value}
    if not kinds or not set(kinds.values()) <= set(KINDS):
        return False
    named = [(kinds[key], name, block) for key, below in value.items() for name, block in (below or {}).items()]
    return bool(named) and all(
        table.implementation(kind, name) is None
        and name not in implementations(kind)
        and ":" not in name
        and isinstance(block, dict)
        and "entrypoint" not in block
        for kind, name, block in named
    )


def _require_ids(config: Config) -> None:
    for agent in Router(config).agents.values():
        name = agent.config.model_server.name
        instance = config.instance(name)
        settings = config.settings(name, resolve_class(instance.implementation, instance.kind).config_type)
        if getattr(settings, "engine", None) == "text":
            raise ConfigError(
                f"{_WHERE}: agent `{agent.name}` asks `{name}`, whose engine is `text`: without token ids all its "
                f"samples would be masked; needs NeMo-RL's chat server, as in {', '.join(CONFIG_STAND_INS.values())}",
                kind="engine_text",
            )
