"""Known-good turns in place of a model: `--oracle`.

The policies' model servers are replaced by `replay`; before each rollout its environment's class is asked for the
row's known-good turns, in this process, and they are handed to replay under the rollout's secret.
Errors  ConfigError when an environment's class gives none; a row that it refuses is a RowError.
"""

from collections.abc import Mapping

from paddock.collect.plan import Plan
from paddock.collect.routing import Agent, environment
from paddock.config import Config
from paddock.config.reading import dump, parse
from paddock.errors import BugError, ConfigError, boundary
from paddock.http import SCRIPT, Call, Peer, Script
from paddock.server import ResourcesServer
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
        tree[name]["agents"][one.implementation] for name, one in config.instances.items() if one.kind == "agents"
    ]
    refers = [(block or {}).get("model_server") for block in blocks]
    names = [refer.get("name") for refer in refers if isinstance(refer, dict)]
    return {name: REPLAY for name in names if isinstance(name, str) and name not in config.instances}


class OraclePrompter:
    """Scripts each rollout before it runs."""

    def __init__(self, plan: Plan, peers: Mapping[str, Peer]) -> None:
        self._peers = peers
        names = {agent.environment for agent in plan.router.agents.values()}
        self._servers = {name: environment(plan.config, name) for name in sorted(names)}
        for name, server in self._servers.items():
            if type(server).oracle is ResourcesServer.oracle:
                raise ConfigError(
                    f"--oracle: {name} ({type(server).__name__}) knows no good turns: it has no `oracle`",
                    kind="no_oracle",
                )

    async def prepare(self, agent: Agent, row: Row, secret: str) -> None:
        server = self._servers[agent.environment]
        task = server.read_task(row)
        with boundary(BugError, f"{agent.environment}: oracle", stage="seed"):
            turns = [list(turn) for turn in server.oracle(task, row)]
        model = self._peers[agent.config.model_server.name]
        await model.call(SCRIPT, Script(turns=turns), Call(), secret=secret)
