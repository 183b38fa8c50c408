"""The top-level keys of a config, and what a config is made of.

Law     a top-level key is one of `RunSettings` or the name of an instance. Free variables live under `vars` and are
        read as `${vars.name}`. Only in files with NeMo-Gym's names may they stand at the top: one that an
        interpolation reads is moved under `vars`, any other is refused.
"""

from typing import Literal, NamedTuple, get_args

from pydantic import Field

from paddock.types import JsonObject, Record

Kind = Literal["resources_servers", "agents", "models_servers"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class RunSettings(Record):
    """Every top-level key that is no instance; values may be interpolations."""

    config_paths: list[str] = Field(default_factory=list)
    """Files that come before this one."""
    policy_base_url: str | list[str] | None = None
    """Where the policy is served; read as `${policy_base_url}`, like the next two; None: not given."""
    policy_api_key: str | None = None
    """Key of the policy's endpoint; None: not given."""
    policy_model_name: str | None = None
    """Name of the policy's model there; None: not given."""
    genrm_base_url: str | list[str] | None = None
    """Where the judge is served; read as `${genrm_base_url}`, like the next two; None: not given."""
    genrm_api_key: str | None = None
    """Key of the judge's endpoint; None: not given."""
    genrm_model_name: str | None = None
    """Name of the judge's model there; None: not given."""
    default_host: str | None = None
    """Address that servers bind; None: loopback."""
    agent_map: dict[str, str] = Field(default_factory=dict)
    """Agent names that rows use -> agent instances here."""
    eval: JsonObject = Field(default_factory=dict)
    """Settings of rollout collection; checked by it."""
    rollouts: JsonObject = Field(default_factory=dict)
    """Options of a trainer's rollouts (`paddock.open_rollouts`); checked by them."""
    serve: JsonObject = Field(default_factory=dict)
    """Settings of serving; checked by it."""
    vars: JsonObject = Field(default_factory=dict)
    """Free variables, read as `${vars.name}`."""


class Instance(NamedTuple):
    """One server of a config."""

    name: str
    kind: Kind
    implementation: str
    """A plugin folder of that kind, or `package.module:Class`."""
    origin: str
    """`file:line` where the instance was first named."""


class Note(NamedTuple):
    """A key that was read in another way than written; shown at start-up and by a dry run. Has no value in it."""

    where: str
    """`file:line`, or what else gave the key."""
    key: str
    """The key path as it was written."""
    kind: Literal["mapped", "inert", "trainer"]
    """`mapped`: has another name here; `inert`: has no effect here, and is refused by strict loading; `trainer`: meant
    for another program."""
    text: str

    def __str__(self) -> str:
        verb = {"mapped": "read as", "inert": "ignored:", "trainer": "the trainer's:"}[self.kind]
        return f"{self.where}: `{self.key}` {verb} {self.text}"
