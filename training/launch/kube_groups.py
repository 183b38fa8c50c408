"""The groups of pods of a Ray cluster on Kubernetes: how many nodes with which label.

Law     a label of `cluster.labels` has as many nodes as the GPUs of its roles fill, and at least one. Nodes without a
        label are the rest of `cluster.num_nodes`.
Errors  ConfigError `placement`: labels need more nodes than there are.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from paddock.errors import ConfigError


class NodeGroup(NamedTuple):
    """Nodes of one kind."""

    name: str
    size: int
    labels: dict[str, str]
    """Ray's."""


def node_groups(labels: Mapping[str, int], nodes: int, gpus: int) -> list[NodeGroup]:
    """The groups, the head's first: the head is one of its nodes. `labels`: the GPUs of each label's roles; `gpus`: of
    each node."""
    labelled = list(_labelled(labels, gpus))
    rest = nodes - sum(group.size for group in labelled)
    if rest < 0:
        described = ", ".join(f"{group.size} with {label}" for group, label in zip(labelled, labels, strict=True))
        raise ConfigError(f"{nodes} nodes, and the labels of cluster.labels need {described}", kind="placement")
    return [*([NodeGroup("nodes", rest, {})] if rest else []), *labelled]


def _labelled(labels: Mapping[str, int], gpus: int) -> Iterator[NodeGroup]:
    for nth, (label, taken) in enumerate(labels.items(), 1):
        key, _, value = label.partition("=")
        yield NodeGroup(f"nodes-{nth}", max(1, -(-taken // gpus)) if gpus else 1, {key: value})
