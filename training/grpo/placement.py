"""Which node runs which role of a run, by arithmetic alone: the same for a plan and for a start.

Policy  the ranks that split each tensor among them stay on one node; such blocks follow each other over the nodes.
Engines each replica is on one node; those of one node are one role, with a model server and at least one rollout worker
        of their own.
Order   nodes as they are given. A role with GPUs takes the first node that has enough left, one without the node that
        has the fewest roles.
Errors  ConfigError `placement`: which role finds no node, and what is left.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.training.grpo.config import TrainConfig

POLICY, ENGINES, ROLLOUTS = "policy", "engines", "rollouts"


class ClusterNode(NamedTuple):
    """A node of a cluster."""

    name: str
    address: str = ""
    id: str = ""
    """Ray's."""
    gpus: int = 0
    """GPUs that a run may take."""
    labels: Mapping[str, str] | None = {}
    """None: all; of a node that is only planned."""

    def __str__(self) -> str:
        return f"{self.name} ({self.address})" if self.address else self.name


class RoleNeed(NamedTuple):
    """Processes of one kind, in blocks that stay on one node."""

    kind: str
    blocks: int
    size: int = 1
    """Processes of a block."""
    gpus: int = 0
    """Of each process."""
    label: str | None = None
    """`KEY=VALUE` of the nodes that may run them; None: any."""

    def allows(self, node: ClusterNode) -> bool:
        key, _, value = (self.label or "").partition("=")
        return self.label is None or node.labels is None or node.labels.get(key) == value


class RolePlace(NamedTuple):
    """One process, and where it runs."""

    role: str
    node: ClusterNode
    gpus: int = 0
    replicas: int = 0
    """vLLM servers that it launches; 0: all of the run."""


class RolePlacement(NamedTuple):
    policy: list[RolePlace]
    """By rank."""
    engines: list[RolePlace]
    rollouts: list[RolePlace]
    """At least as many as `engines`: the first asks the first of those, and so on, around."""

    @property
    def all(self) -> list[RolePlace]:
        return [*self.policy, *self.engines, *self.rollouts]


def needs_of(config: TrainConfig, launch: LaunchSettings | None) -> list[RoleNeed]:
    """What the roles of a run need. `launch`: the engines that it starts; None: they run already."""
    policy, labels, counted = config.policy, config.cluster.labels, config.cluster.gpus_per_node > 0
    block = policy.megatron_cfg.ranks_on_one_node if policy.megatron_cfg.enabled else 1
    per_rank = int(counted and policy.torch_cfg.device != "cpu")
    per_replica = launch.gpus_per_replica if launch is not None and counted and launch.device != "cpu" else 0
    n_replicas = launch.replicas if launch is not None else 1
    return [
        RoleNeed(POLICY, policy.n_processes // block, block, per_rank, labels.policy),
        # Without GPUs nothing says how many a node holds: they stay together.
        RoleNeed(
            ENGINES, n_replicas if per_replica else 1, 1 if per_replica else n_replicas, per_replica, labels.engines
        ),
        RoleNeed(ROLLOUTS, config.cluster.rollout_workers, label=labels.rollouts),
    ]


def place(needs: Sequence[RoleNeed], nodes: Sequence[ClusterNode]) -> RolePlacement:
    """Where all of it runs."""
    left = {node.id: node.gpus for node in nodes}
    n_roles: Counter[str] = Counter()
    policy, engines, rollouts = needs
    ranks = [node for node in _place_blocks(policy, nodes, left, n_roles) for _ in range(policy.size)]
    replicas = Counter({node.id: 0 for node in nodes})
    for node in _place_blocks(engines, nodes, left, n_roles):
        replicas[node.id] += engines.size
    hosts = [node for node in nodes if replicas[node.id]]
    n_workers = max(len(hosts), rollouts.blocks)
    workers = _place_blocks(rollouts._replace(blocks=n_workers), nodes, left, n_roles)
    return RolePlacement(
        [RolePlace(_numbered(POLICY, rank, len(ranks)), node, policy.gpus) for rank, node in enumerate(ranks)],
        [
            RolePlace(
                _numbered(ENGINES, nth, len(hosts)),
                node,
                replicas[node.id] * engines.gpus,
                replicas[node.id] if len(hosts) > 1 else 0,
            )
            for nth, node in enumerate(hosts)
        ],
        [RolePlace(_numbered(ROLLOUTS, nth, n_workers), node) for nth, node in enumerate(workers)],
    )


def placement_lines(placement: RolePlacement, nodes: Sequence[ClusterNode]) -> list[str]:
    """A line for each node."""
    lines = []
    for node in nodes:
        places = [place for place in placement.all if place.node.id == node.id]
        gpus = sum(place.gpus for place in places)
        roles = ", ".join(_shortened([place.role for place in places])) or "nothing"
        lines.append(f"{node}: {roles}{f'; {gpus} of {node.gpus} GPUs' if node.gpus else ''}")
    return lines


def _place_blocks(
    need: RoleNeed, nodes: Sequence[ClusterNode], left: dict[str, int], n_roles: "Counter[str]"
) -> list[ClusterNode]:
    """The node of each block; takes its GPUs from `left`."""
    allowed = [node for node in nodes if need.allows(node)]
    if not allowed:
        where = f"no node has the label {need.label} (cluster.labels.{need.kind})" if nodes else "there is no node"
        raise _error(f"{need.kind}: {where}", nodes, left)
    chosen = []
    for nth in range(need.blocks):
        gpus = need.size * need.gpus
        fitting = [node for node in allowed if left[node.id] >= gpus]
        if not fitting:
            label = f" with the label {need.label}" if need.label else ""
            count = f" ({nth + 1} of {need.blocks})" if need.blocks > 1 else ""
            raise _error(f"{need.kind}{count} needs {gpus} GPUs on one node{label}", nodes, left)
        node = fitting[0] if gpus else min(fitting, key=lambda node: n_roles[node.id])
        left[node.id] -= gpus
        n_roles[node.id] += need.size
        chosen.append(node)
    return chosen


def _error(what: str, nodes: Sequence[ClusterNode], left: Mapping[str, int]) -> ConfigError:
    free = ", ".join(f"{node} {left[node.id]}" for node in nodes)
    return ConfigError(f"{what}; GPUs that are left: {free or 'none'}", kind="placement")


def _numbered(kind: str, nth: int, count: int) -> str:
    return f"{kind}-{nth}" if count > 1 else kind


def _shortened(roles: Sequence[str]) -> list[str]:
    """`policy-0, policy-1, policy-2` as `policy-0 to policy-2`."""
    kinds: dict[str, list[str]] = {}
    for role in roles:
        kinds.setdefault(role.partition("-")[0], []).append(role)
    return [f"{same[0]} to {same[-1]}" if _is_range(same) else ", ".join(same) for same in kinds.values()]


def _is_range(roles: Sequence[str]) -> bool:
    numbers = [int(role.partition("-")[2] or 0) for role in roles]
    return len(roles) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
