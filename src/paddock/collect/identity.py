"""Which run a folder holds: what must be the same for a run to be resumed, and for shards to be one run.

Same    the config without secrets, places and settings of pace; the models' names; each row file's content; which
        rows, how often.
Ignored where servers are and how patiently they are waited for (`NOT_IDENTIFYING`), versions: a run may be resumed on
        other machines. Versions are noted for the reader.
Law     interpolations are written as they are; a literal under a key that names a secret is never written.
"""

import hashlib
import platform
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import Field, ValidationError

from paddock import __version__
from paddock.collect.folder import RUN
from paddock.collect.routing import Agent, Router
from paddock.collect.rows import FileFacts, RowSource
from paddock.collect.settings import EvalSettings, Selection
from paddock.config import Config
from paddock.config.yaml_text import parse
from paddock.errors import ConfigError, describe
from paddock.types import JsonObject, Record
from paddock.types.formats import FORMAT, later_format_text
from paddock.types.responses import new_id

BLANK = "<not written>"
ORACLE = "oracle"
"""The model's name of a run that plays rows' known-good turns."""
SECRET_WORDS = ("api_key", "password", "secret", "bearer", "credential", "authorization")
REFERENCE = re.compile(r"\$\{[^,{}]*\}")
"""A reference without a default: it names a secret and holds none."""
PLACES = (
    *("host", "port", "default_host", "base_url", "policy_base_url", "genrm_base_url"),
    *("turn_store", "state_dir", "config_paths"),
)
PATIENCE = (
    *("timeout_s", "rollout_timeout_s", "attempts", "first_retry_s", "max_retry_s", "max_concurrency"),
    *("comparison_timeout_s", "outage_retry_s", "retry_for_s", "keep_settled_s"),
)
NOT_IDENTIFYING = frozenset({*PLACES, *PATIENCE, "eval", "serve"})
"""Keys that say where and how patiently, and nothing about what a verdict means."""
_USER_OF_URL = re.compile(r"://[^/@\s]+@")


class RowFile(Record):
    """A row file as a run has it."""

    path: str
    sha256: str
    size_bytes: int
    n_rows: int
    repeats: int
    agent: str | None = None
    prompt_sha256: str | None = None
    """Of the template of its rows' prompts; None: they bring their own."""


class AgentIdentity(Record):
    """The names under which an agent's rollouts are summarised."""

    environment: str
    harness: str
    model: str
    relative: bool = False
    """Its rewards compare the members of a group with each other: none of them is a pass."""


class RunIdentity(Record):
    """`run.json`."""

    format: int = 1
    """The format in which the run was begun. In format 1 neither this number nor digests of lines are written."""
    run_id: str
    started_at: float
    """Seconds since 1970 UTC."""
    config_sha256: str
    """Hash of the config's identifying part."""
    rows: list[RowFile]
    first: int = 0
    end: int | None = None
    shard: int = 0
    shards: int = 1
    agent: str | None = None
    oracle: bool = False
    n_rows: int
    n_rollouts: int
    """How many rollouts the run has when it is complete."""
    agents: dict[str, AgentIdentity] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def older(self) -> bool:
        """Whether its first lines may be without a digest."""
        return self.format < FORMAT

    def has(self, group_id: int, member: int) -> bool:
        """Whether it is a rollout of this run."""
        n_rows = sum(file.n_rows for file in self.rows)
        selected = Selection(self.first, self.end, self.shard, self.shards).takes(group_id)
        return selected and 0 <= group_id < n_rows and 0 <= member < self.group_size(group_id)

    def group_size(self, group_id: int) -> int:
        """How many members the row of that index has."""
        end = 0
        for file in self.rows:
            end += file.n_rows
            if group_id < end:
                return file.repeats
        raise ConfigError(f"row {group_id} is in none of the run's files", kind="run_unreadable")


class Scope(NamedTuple):
    """Which rollouts a run has."""

    files: list[tuple[RowSource, FileFacts]]
    selection: Selection
    n_rows: int
    n_rollouts: int


def identify(config: Config, settings: EvalSettings, scope: Scope, router: Router, *, oracle: bool) -> RunIdentity:
    tree = identifying_tree(config)
    return RunIdentity(
        format=FORMAT,
        run_id=new_id("run"),
        started_at=time.time(),
        config_sha256=hashlib.sha256(orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        rows=[
            RowFile(
                path=str(source.path),
                repeats=source.repeats,
                agent=source.agent,
                prompt_sha256=source.prompt.sha256 if source.prompt else None,
                **facts._asdict(),
            )
            for source, facts in scope.files
        ],
        **scope.selection._asdict(),
        agent=settings.agent,
        oracle=oracle,
        n_rows=scope.n_rows,
        n_rollouts=scope.n_rollouts,
        agents={name: _agent_identity(agent, oracle=oracle) for name, agent in router.agents.items()},
        versions={"paddock": __version__, "python": platform.python_version()},
    )


def _agent_identity(agent: Agent, *, oracle: bool) -> AgentIdentity:
    model = ORACLE if oracle else agent.model
    return AgentIdentity(environment=agent.environment, harness=agent.harness, model=model, relative=agent.group_wise)


def read_identity(folder: Path) -> RunIdentity:
    """Which run a folder holds; ConfigError, in words, where that can't be known."""
    path = folder / RUN
    try:
        tree = orjson.loads(path.read_bytes() or b"null")
    except OSError as error:
        raise _unreadable(path, f"can't be read: {error.strerror or error}") from error
    except orjson.JSONDecodeError as error:
        raise _unreadable(path, f"is no JSON: {error}") from error
    if not isinstance(tree, dict):
        raise _unreadable(path, "is empty" if tree is None else "holds no JSON object")
    number = tree.get("format", 1)
    if isinstance(number, int) and number > FORMAT:
        raise _unreadable(path, later_format_text(number))
    try:
        return RunIdentity.model_validate(tree)
    except ValidationError as error:
        versions = tree.get("versions")
        wrote = versions.get("paddock") if isinstance(versions, dict) else None
        why = f"{validation_text(error)}; it was written by paddock {wrote}, this is paddock {__version__}"
        raise _unreadable(path, why) from error


def _unreadable(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path}: {why}. It says which run the folder holds; nothing was changed", kind="run_unreadable")


def validation_text(error: ValidationError) -> str:
    """In words: the unknown or wrong fields of a stored record."""
    unknown = [".".join(map(str, item["loc"])) for item in error.errors() if item["type"] == "extra_forbidden"]
    if len(unknown) == error.error_count():
        return f"it has {'a field' if len(unknown) == 1 else 'fields'} unknown here: {', '.join(unknown)}"
    return describe(error)


def public_tree(config: Config) -> JsonObject:
    """The unresolved config with every literal secret blanked."""
    tree: JsonObject = blank_secrets(parse(config.to_yaml(), "composed config").tree)
    return tree


def identifying_tree(config: Config) -> JsonObject:
    """The part of a config that must be the same when its run is resumed."""
    tree: JsonObject = identifying_part(public_tree(config))
    return tree


def differences(before: RunIdentity, now: RunIdentity, trees: tuple[JsonObject, JsonObject] | None = None) -> list[str]:
    """In words, each difference that makes `now` another run than `before`; empty: it is the same run."""
    differing: list[str] = []
    if before.config_sha256 != now.config_sha256:
        keys = ", ".join(list(changed(*trees))[:8]) if trees else ""
        differing.append(f"the config differs{': ' + keys if keys else ''}")
    if len(before.rows) != len(now.rows):
        differing.append(f"{len(before.rows)} row files before, {len(now.rows)} now")
    for file_before, file_now in zip(before.rows, now.rows, strict=False):
        differing += _row_file_differences(file_before, file_now)
    for key in ("first", "end", "shard", "shards", "agent", "oracle"):
        if getattr(before, key) != getattr(now, key):
            differing.append(f"{key}: {getattr(before, key)} before, {getattr(now, key)} now")
    # A name that comes from the environment is the same in both configs, and another model.
    for name in before.agents.keys() & now.agents.keys():
        models = before.agents[name].model, now.agents[name].model
        if models[0] != models[1]:
            differing.append(f"model of {name}: {models[0]} before, {models[1]} now")
    return differing


def _row_file_differences(before: RowFile, now: RowFile) -> list[str]:
    differing = []
    if before.sha256 != now.sha256:
        differing.append(f"rows in {now.path} differ: {before.n_rows} rows before ({before.path}), {now.n_rows} now")
    if before.prompt_sha256 != now.prompt_sha256:
        differing.append(f"the prompt of rows in {now.path} differs")
    for key in ("repeats", "agent"):
        if getattr(before, key) != getattr(now, key):
            differing.append(f"{key} of {now.path}: {getattr(before, key)} before, {getattr(now, key)} now")
    return differing


def changed(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Each key whose value differs, with both values."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in [*before, *(key for key in now if key not in before)]:
            yield from changed(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield f"`{path}` ({_short(before)} before, {_short(now)} now)"


def blank_secrets(node: Any, key: str = "") -> Any:
    """A copy of a config tree with every literal secret blanked."""
    if isinstance(node, Mapping):
        # Any header may be a secret, whatever its name.
        inside = key if key.lower().endswith("headers") else ""
        return {name: blank_secrets(value, inside or str(name)) for name, value in node.items()}
    if isinstance(node, list):
        return [blank_secrets(item, key) for item in node]
    if not isinstance(node, str) or REFERENCE.fullmatch(node):
        return node
    return BLANK if _is_secret(key) else _USER_OF_URL.sub(f"://{BLANK}@", node)


def identifying_part(node: Any) -> Any:
    """A copy of a config tree without secrets and the keys of `NOT_IDENTIFYING`."""
    if isinstance(node, Mapping):
        return {name: identifying_part(value) for name, value in node.items() if _identifies(str(name))}
    return [identifying_part(item) for item in node] if isinstance(node, list) else node


def _identifies(key: str) -> bool:
    return key not in NOT_IDENTIFYING and not _is_secret(key)


def _is_secret(key: str) -> bool:
    name = key.lower()
    return any(word in name for word in SECRET_WORDS) or name.endswith(("key", "token", "headers"))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
