"""NeMo-RL's dictionary of environments as a config of our servers.

Source  NVIDIA-NeMo/RL, `nemo_rl/environments/nemo_gym.py`: `env.nemo_gym` without the trainer's own keys, and what
        `_spinup` adds to it: the policy's name, key and URLs, ports, limits of connections, the head server.
Law     published `config_paths` compose our servers through the alias table. A key that says nothing here is a note,
        one that nobody knows is refused; so is a server, but for what NeMo-Gym takes for none: a block without an
        `entrypoint`, such as recipes inherit for files that they do not name.
        The policy is asked at NeMo-RL's chat server, which splices: `PATHS`. All servers run in the actor's process and
        listen, where they do, on loopback: its `default_host` says nothing.
Errors  ConfigError; also where an agent asks a server whose answers have no ids: all its samples would be masked.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.collect import EvalSettings
from paddock.collect.routing import Router
from paddock.config import KINDS, Config, Note, alias_table, implementations, load, resolve_class, validate
from paddock.errors import ConfigError
from paddock.types import JsonObject

PATHS = {
    "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml": "models_servers/openai/configs/nemo_rl.yaml"
}
"""Files of NeMo-Gym, and what they are under NeMo-RL; in a run of our own they are other files of ours."""
KEY_OF_NONE = "dummy_key"
"""NeMo-RL's chat server asks for no key; its clients send one."""
_OF_COLLECTIONS = frozenset(
    ("rows", "split", "agent", "repeats", "limit", "slice", "shard", "strict_rows", "deadline_s", "progress_every_s")
)
"""Keys of `eval` that say which rollouts there are: here the trainer does."""
_WHERE = "env.nemo_gym"


class Composed(NamedTuple):
    config: Config
    attempts: EvalSettings
    """How a rollout is attempted, and where attempts are written down."""
    at_once: int | None
    """Rollouts in flight; None: as many as the trainer asks for."""
    notes: list[Note]
    """What was read other than written; for the reader of a log."""


def compose(given: Mapping[str, Any]) -> Composed:
    """`given`: the dictionary, plain or OmegaConf's."""
    body, notes = _of_servers(_plain(given))
    unsaid = [Note(_WHERE, "default_host", "inert", "servers of one process call each other, and listen on loopback")]
    notes += unsaid if body.pop("default_host", None) is not None else []
    try:
        config = load([], extra={"env": {"nemo_gym": body}}, stand_ins=PATHS)
    except ConfigError as error:
        raise ConfigError(error.message.replace("extra: ", f"{_WHERE}: "), kind=error.kind) from error
    said = config.top("eval") or {}
    attempts = validate(EvalSettings, said, "eval")
    names = list(Router(config).agents)
    config.require(config.needed(names))
    _require_ids(config)
    notes += [note for note in config.notes if note.kind != "trainer"]
    notes += [
        Note(_WHERE, f"eval.{key}", "inert", "rows come from the trainer") for key in said if key in _OF_COLLECTIONS
    ]
    return Composed(config, attempts, attempts.concurrency if "concurrency" in said else None, notes)


def policy_keys(model_name: str, base_urls: object) -> JsonObject:
    """What `_spinup` adds to the dictionary that our servers read."""
    return {"policy_model_name": model_name, "policy_api_key": KEY_OF_NONE, "policy_base_url": base_urls}


def _plain(given: Mapping[str, Any]) -> JsonObject:
    if type(given).__module__.partition(".")[0] == "omegaconf":
        from omegaconf import OmegaConf

        tree: Any = OmegaConf.to_container(given, resolve=False)
        return dict(tree)
    return dict(given)


def _of_servers(body: JsonObject) -> tuple[JsonObject, list[Note]]:
    """Without blocks of which NeMo-Gym would serve nothing."""
    strange = [key for key, value in body.items() if isinstance(value, dict) and _is_no_server(value)]
    text = "no server: nothing here has its name, and without `entrypoint` NeMo-Gym serves none either"
    kept = {key: value for key, value in body.items() if key not in strange}
    return kept, [Note(_WHERE, key, "inert", text) for key in strange]


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
                f"samples would be masked; needs NeMo-RL's chat server, as in {', '.join(PATHS.values())}",
                kind="engine_text",
            )
