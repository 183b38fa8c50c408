"""Which agent runs a row, and what stands behind that agent.

Law     a row's `agent_ref` names an instance of the config, directly or through `agent_map`; its `type` is not read.
        Without one: the source's agent, else `eval.agent`, else the only agent there is.
Errors  a name that no agent has is a RowError (kind `agent_unknown`) with the nearest one; where a row needs a name
        and has none, it says which there are.
"""

from typing import Any, NamedTuple

from paddock.config import Config, resolve_class
from paddock.config.problems import nearest
from paddock.errors import ConfigError, RowError
from paddock.server import AgentConfig, AgentServer, Dataset, ResourcesServer
from paddock.types import JsonObject, Row


class Agent(NamedTuple):
    """One agent of a config, with the names under which its rollouts are summarised."""

    name: str
    config: AgentConfig
    environment: str
    """Its resources server."""
    harness: str
    """What acts inside the agent: its `harness`, else its implementation."""
    model: str
    """The model's own name where the model server's block gives one, else that server's name."""
    own_prompt: bool = False
    """Whether it makes the model's request itself, so that a row need not bring one."""
    group_wise: bool = False
    """Whether its environment judges the members of a group together."""

    @property
    def datasets(self) -> list[Dataset]:
        return self.config.datasets


class Router:
    """Finds the agent of each row."""

    def __init__(self, config: Config, *, default: str | None = None) -> None:
        names = [name for name, instance in config.instances.items() if instance.kind == "agents"]
        self.agents = {name: _agent(config, name) for name in names}
        self._map: dict[str, str] = dict(config.top("agent_map") or {})
        self._default = default
        if not self.agents:
            raise ConfigError("the config has no agent: nothing can run a row", kind="no_agent")
        if default is not None and default not in self.agents:
            raise ConfigError(f"eval.agent: {self._unknown(default)}", kind="agent_unknown")

    def agent_of(self, row: Row, *, source_agent: str | None = None) -> Agent:
        if row.agent_ref is not None:
            wanted = row.agent_ref.name
            name = self._mapped(wanted)
            if name not in self.agents:
                raise RowError(f"agent_ref.name: {self._unknown(wanted)}", kind="agent_unknown")
            return self.agents[name]
        agent = self.fallback(source_agent)
        if agent is None:
            raise RowError(
                f"agent_ref: missing, and there are several agents: {', '.join(self.agents)}; name one with --agent",
                kind="agent_missing",
            )
        return agent

    def makes_prompt(self, wire: JsonObject, *, source_agent: str | None = None) -> bool:
        """Whether the agent of a row, as it stands in its file, makes the model's request itself: the row then need not
        bring one."""
        ref = wire.get("agent_ref")
        name = ref.get("name") if isinstance(ref, dict) else None
        agent = self.agents.get(self._mapped(name)) if isinstance(name, str) else self.fallback(source_agent)
        return agent is not None and agent.own_prompt

    def fallback(self, source_agent: str | None) -> Agent | None:
        """The agent of a row that names none."""
        name = source_agent or self._default or (next(iter(self.agents)) if len(self.agents) == 1 else None)
        return self.agents[name] if name is not None else None

    def _mapped(self, name: str) -> str:
        return name if name in self.agents else self._map.get(name, name)

    def _unknown(self, name: str) -> str:
        close = nearest(name, self.agents)
        hint = f"; nearest: {close!r}" if close else ""
        return f"no agent {name!r}{hint}; there are: {', '.join(self.agents)}; map it with agent_map.{name}=AGENT"


def environment(config: Config, name: str) -> ResourcesServer[Any, Any]:
    """The resources server of that name, built and not started: for reading tasks and asking for known-good turns."""
    instance = config.instance(name)
    cls = resolve_class(instance.implementation, instance.kind)
    server = cls(config.settings(name, cls.config_type), name=name, peers={})
    if not isinstance(server, ResourcesServer):
        raise ConfigError(f"{name}: {cls.__name__} is no resources server", kind="class_wrong")
    return server


def acting(config: Config, name: str) -> AgentServer[Any]:
    """The agent of that name, built and not started: for asking how it would play what its environment knows."""
    instance = config.instance(name)
    cls = resolve_class(instance.implementation, instance.kind)
    agent: AgentServer[Any] = cls(config.settings(name, cls.config_type), name=name, peers={})
    return agent


def _agent(config: Config, name: str) -> Agent:
    instance = config.instance(name)
    cls = resolve_class(instance.implementation, instance.kind)
    if not issubclass(cls, AgentServer):
        raise ConfigError(f"{name}: {cls.__name__} is no agent", kind="class_wrong")
    settings = config.settings(name, cls.config_type)
    if not isinstance(settings, AgentConfig):
        raise ConfigError(f"{name}: the config of {cls.__name__} is no AgentConfig", kind="class_wrong")
    harness = getattr(settings, "harness", None)
    acts = harness if isinstance(harness, str) else instance.implementation
    model = _model(config, settings.model_server.name)
    environment = settings.resources_server.name
    return Agent(name, settings, environment, acts, model, cls.OWN_PROMPT, _is_group_wise(config, environment))


def _is_group_wise(config: Config, environment: str) -> bool:
    instance = config.instance(environment)
    cls = resolve_class(instance.implementation, instance.kind)
    return issubclass(cls, ResourcesServer) and cls.GROUP_WISE


def _model(config: Config, server: str) -> str:
    try:
        name = config.block(server).get("model")
    except ConfigError:
        return server  # what it lacks is said by its own start, where there is one
    return name if isinstance(name, str) and name else server
