"""Which node runs which role of a run, by arithmetic alone: the same for a plan and for a start.

Policy  the ranks that split each tensor among them stay on one node; such blocks follow each other over the nodes.
Engines each replica is on one node; those of one node are one role, with a model server and at least one rollout worker
        of their own. A replica with more GPUs than any node has is spread: each stage of its layers on one node, or,
        where a stage is too large as well, rank after rank. Without GPUs, where nothing is counted, its stages are.
        It is a role of its own, on the node of its rank 0; a node's ranks follow each other.
Order   nodes as they are given. A role with GPUs takes the first node that has enough left, one without the node that
        has the fewest roles.
Errors  ConfigError `placement`: which role finds no node, and what is left.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.training.grpo.config import ClusterConfig, TrainConfig
from paddock.training.grpo.policy_config import PolicyConfig

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
    stages: int = 1
    """Of each process that may be spread over nodes: parts that stay on one node."""
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
    ranks: tuple[ClusterNode, ...] = ()
    """Of one vLLM that is spread over nodes, by rank; none: it is not."""
    gpus_per_rank: int = 0

    def gpus_on(self, node: ClusterNode) -> int:
        """GPUs that it takes there."""
        own = self.gpus if self.node.id == node.id else 0
        return own + self.gpus_per_rank * sum(rank.id == node.id for rank in self.ranks)


class RolePlacement(NamedTuple):
    policy: list[RolePlace]
    """By rank."""
    engines: list[RolePlace]
    rollouts: list[RolePlace]
    """At least as many as `engines`."""

    @property
    def workers(self) -> list[list[RolePlace]]:
        """The rollout workers that ask each role of `engines`: as many to within one, of its own node where there are,
        for there a worker has its model server in its own process."""
        hosts, fewest = self.engines, len(self.rollouts) // len(self.engines)
        shares: list[list[RolePlace]] = [[] for _ in hosts]
        others: list[RolePlace] = []
        for worker in self.rollouts:
            near = [share for host, share in zip(hosts, shares, strict=True) if host.node.id == worker.node.id]
            share = min(near, key=len, default=None)
            (others if share is None or len(share) == fewest else share).append(worker)
        for worker in others:
            away = [host.node.id != worker.node.id for host in hosts]
            nth = min(range(len(hosts)), key=lambda nth: (len(shares[nth]), away[nth]))
            shares[nth].append(worker)
        return shares

    @property
    def all(self) -> list[RolePlace]:
        return [*self.policy, *self.engines, *self.rollouts]


def needs_of(config: TrainConfig, launch: LaunchSettings | None) -> list[RoleNeed]:
    """What the roles of a run need. `launch`: the engines that it starts; None: they run already."""
    labels, counted = config.cluster.labels, config.cluster.gpus_per_node > 0
    per_replica = launch.gpus_per_replica if launch is not None and counted and launch.device != "cpu" else 0
    n_replicas = launch.replicas if launch is not None else 1
    spread = launch is not None and (per_replica or launch.device == "cpu")
    stages = launch.pipeline_parallel_size if launch is not None and spread else 1
    together = not per_replica and stages == 1
    return [
        policy_need(config.policy, config.cluster),
        # Without GPUs nothing says how many a node holds: they stay together.
        RoleNeed(
            ENGINES,
            *((1, n_replicas) if together else (n_replicas, 1)),
            per_replica,
            stages,
            labels.engines,
        ),
        RoleNeed(ROLLOUTS, config.cluster.rollout_workers, label=labels.rollouts),
    ]


def policy_need(policy: PolicyConfig, cluster: ClusterConfig) -> RoleNeed:
    """What the processes of the policy need."""
    block = policy.megatron_cfg.ranks_on_one_node if policy.megatron_cfg.enabled else 1
    # Of one GPU for both it is the engine that takes it; a role that takes none sees all.
    apart = not policy.generation.colocated.enabled
    per_rank = int(cluster.gpus_per_node > 0 and apart and policy.torch_cfg.device != "cpu")
    return RoleNeed(POLICY, policy.n_processes // block, block, per_rank, label=cluster.labels.policy)


def place(needs: Sequence[RoleNeed], nodes: Sequence[ClusterNode]) -> RolePlacement:
    """Where all of it runs."""
    left = {node.id: node.gpus for node in nodes}
    n_roles: Counter[str] = Counter()
    policy, engines, rollouts = needs
    ranks = [node for node in _place_blocks(policy, nodes, left, n_roles) for _ in range(policy.size)]
    hosts = _engine_hosts(engines, nodes, left, n_roles)
    n_workers = max(len(hosts), rollouts.blocks)
    workers = _place_blocks(rollouts._replace(blocks=n_workers), nodes, left, n_roles)
    return RolePlacement(
        [RolePlace(_numbered(POLICY, rank, len(ranks)), node, policy.gpus) for rank, node in enumerate(ranks)],
        [host._replace(role=_numbered(ENGINES, nth, len(hosts))) for nth, host in enumerate(hosts)],
        [RolePlace(_numbered(ROLLOUTS, nth, n_workers), node) for nth, node in enumerate(workers)],
    )


def placement_lines(placement: RolePlacement, nodes: Sequence[ClusterNode]) -> list[str]:
    """A line for each node."""
    lines = []
    for node in nodes:
        parts = _shortened([place.role for place in placement.all if place.node.id == node.id])
        parts += [text for place in placement.engines if (text := _ranks_text(place, node))]
        gpus = sum(place.gpus_on(node) for place in placement.all)
        lines.append(f"{node}: {', '.join(parts) or 'nothing'}{f'; {gpus} of {node.gpus} GPUs' if node.gpus else ''}")
    return lines


def _engine_hosts(
    need: RoleNeed, nodes: Sequence[ClusterNode], left: dict[str, int], n_roles: "Counter[str]"
) -> list[RolePlace]:
    """The roles of the engines, without numbers."""
    if _is_spread(need, nodes):
        replicas = [_rank_nodes(need, nth, nodes, left, n_roles) for nth in range(need.blocks)]
        per_rank = int(need.gpus > 0)
        own = 1 if need.blocks > 1 else 0
        return [RolePlace(need.kind, ranks[0], 0, own, tuple(ranks), per_rank) for ranks in replicas]
    counts = Counter({node.id: 0 for node in nodes})
    for node in _place_blocks(need, nodes, left, n_roles):
        counts[node.id] += need.size
    hosts = [node for node in nodes if counts[node.id]]
    several = len(hosts) > 1
    return [RolePlace(need.kind, node, counts[node.id] * need.gpus, counts[node.id] * several) for node in hosts]


def _is_spread(need: RoleNeed, nodes: Sequence[ClusterNode]) -> bool:
    allowed = [node for node in nodes if need.allows(node)]
    if not need.gpus:
        return need.stages > 1
    return need.gpus > max((node.gpus for node in allowed), default=need.gpus)


def _rank_nodes(
    need: RoleNeed, nth: int, nodes: Sequence[ClusterNode], left: dict[str, int], n_roles: "Counter[str]"
) -> list[ClusterNode]:
    """The node of each rank of a replica."""
    replica = f"a replica of {need.kind}" if need.blocks == 1 else f"replica {nth + 1} of {need.blocks} of {need.kind}"
    per_stage = max(1, need.gpus // need.stages)
    whole = not need.gpus or per_stage <= max(node.gpus for node in nodes if need.allows(node))
    parts, size = (need.stages, per_stage) if whole else (need.stages * per_stage, 1)
    part = need._replace(blocks=parts, size=size, gpus=int(need.gpus > 0))
    chosen = _place_blocks(part, nodes, left, n_roles, f"{replica}, {'stage' if whole else 'rank'}")
    # vLLM asks for the ranks of its server's own node to be the first ones.
    order = list(dict.fromkeys(node.id for node in chosen))
    return [node for node in sorted(chosen, key=lambda node: order.index(node.id)) for _ in range(size)]


def _ranks_text(place: RolePlace, node: ClusterNode) -> str:
    """Which ranks of a vLLM run there; empty: none."""
    ranks = [rank for rank, where in enumerate(place.ranks) if where.id == node.id]
    if not ranks:
        return ""
    which = f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
    return f"{which} of the {len(place.ranks)} of {place.role}"


def _place_blocks(
    need: RoleNeed,
    nodes: Sequence[ClusterNode],
    left: dict[str, int],
    n_roles: "Counter[str]",
    what: str | None = None,
) -> list[ClusterNode]:
    """The node of each block; takes its GPUs from `left`. `what`: named in errors in place of the kind."""
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
            raise _error(f"{what or need.kind}{count} needs {gpus} GPUs on one node{label}", nodes, left)
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
