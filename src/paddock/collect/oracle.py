"""Known-good turns in place of a model: `--oracle`.

The policies' model servers are replaced by `replay`; before each rollout its agent's class makes turns of what the
environment's class knows of the row, and they are handed to replay under the rollout's secret.
Law     the methods of both classes are called in this process, without starting their servers. What the environment
        knows reaches agent servers and sandboxes only as tool calls and messages of the model.
Errors  ConfigError when an agent can't play what its environment knows; a row that either refuses is a RowError.
"""

from collections.abc import Mapping

from paddock.collect.plan import Plan
from paddock.collect.routing import Agent, acting, environment
from paddock.config import Config
from paddock.config.yaml_text import dump, parse
from paddock.errors import BugError, boundary
from paddock.http import SCRIPT, Call, Peer, ReplayScript
from paddock.types import JsonObject, Row

REPLAY: JsonObject = {"models_servers": {"replay": {}}}


def oracle_config(plan: Plan) -> Config:
    """The plan's config with replay in the place of every model server that an agent refers to."""
    tree = parse(plan.config.to_yaml(), "composed config").tree
    for agent in plan.router.agents.values():
        tree[agent.config.model_server.name] = REPLAY
    return Config.from_yaml(dump(tree))


def stand_ins(config: Config) -> JsonObject:
    """Replay for each model server that an agent refers to and the config does not have; for `load(extra=...)`."""
    tree = parse(config.to_yaml(), "composed config").tree
    blocks = [
        tree[name]["agents"][instance.implementation]
        for name, instance in config.instances.items()
        if instance.kind == "agents"
    ]
    references = [(block or {}).get("model_server") for block in blocks]
    names = [reference.get("name") for reference in references if isinstance(reference, dict)]
    return {name: REPLAY for name in names if isinstance(name, str) and name not in config.instances}


class OraclePrompter:
    """Gives the replay server the script of each rollout before it runs."""

    def __init__(self, plan: Plan) -> None:
        self.peers: Mapping[str, Peer] = {}
        """The running servers by name; set before the first row is prepared."""
        agents = plan.router.agents
        self._agents = {name: acting(plan.config, name) for name in agents}
        names = sorted({agent.environment for agent in agents.values()})
        self._environments = {name: environment(plan.config, name) for name in names}
        for name, agent in agents.items():
            self._agents[name].check_oracle(self._environments[agent.environment])

    async def prepare(self, agent: Agent, row: Row, secret: str) -> None:
        with boundary(BugError, f"{agent.name}: oracle", stage="seed"):
            turns = await self._agents[agent.name].oracle(self._environments[agent.environment], row)
        script = ReplayScript(turns=[list(turn) for turn in turns])
        await self.peers[agent.config.model_server.name].call(SCRIPT, script, Call(), secret=secret)
