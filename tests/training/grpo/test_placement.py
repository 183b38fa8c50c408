"""Claims about where roles run: what shares tensors shares a node, labels hold, and what lacks is named."""

import pytest

from paddock.errors import ConfigError
from paddock.training.grpo.placement import ClusterNode, RoleNeed, RolePlacement, place, placement_lines

THREE = [
    ClusterNode(name, f"10.0.0.{nth}", name, labels={"node": name}) for nth, name in enumerate(("m1", "m2", "m3"), 1)
]
ONE = RoleNeed("rollouts", 1)


def with_gpus(count: int, *nodes: ClusterNode) -> list[ClusterNode]:
    return [node._replace(gpus=count) for node in nodes]


def nodes_of(placement: RolePlacement) -> list[list[str]]:
    return [[one.node.name for one in part] for part in placement]


def test_without_gpus_each_role_takes_the_node_with_the_fewest() -> None:
    needs = [RoleNeed("policy", 1), RoleNeed("engines", 1, 2), ONE]
    assert nodes_of(place(needs, THREE)) == [["m1"], ["m2"], ["m3"]]
    assert nodes_of(place(needs, THREE[:1])) == [["m1"], ["m1"], ["m1"]]
    assert [one.role for one in place(needs, THREE).all] == ["policy", "engines", "rollouts"]


def test_ranks_that_split_tensors_stay_on_one_node() -> None:
    needs = [RoleNeed("policy", 3, 2, 1), RoleNeed("engines", 1, gpus=2), ONE]
    placement = place(needs, [*with_gpus(3, *THREE[:2]), THREE[2]._replace(gpus=4)])
    assert nodes_of(placement) == [["m1", "m1", "m2", "m2", "m3", "m3"], ["m3"], ["m1"]]
    assert [one.role for one in placement.policy] == [f"policy-{rank}" for rank in range(6)]


def test_replicas_of_a_node_are_one_role_with_a_worker_of_its_own() -> None:
    placement = place([RoleNeed("policy", 2, gpus=1), RoleNeed("engines", 5, gpus=1), ONE], with_gpus(3, *THREE))
    assert [(one.role, one.node.name, one.gpus, one.replicas) for one in placement.engines] == [
        ("engines-0", "m1", 1, 1),
        ("engines-1", "m2", 3, 3),
        ("engines-2", "m3", 1, 1),
    ]
    assert [one.role for one in placement.rollouts] == ["rollouts-0", "rollouts-1", "rollouts-2"]


def test_more_rollout_workers_than_nodes_with_engines_are_spread_over_what_is_left() -> None:
    needs = [RoleNeed("policy", 1), RoleNeed("engines", 1), ONE._replace(blocks=3)]
    placement = place(needs, [*THREE, THREE[2]._replace(name="m4", id="m4")])
    assert nodes_of(placement) == [["m1"], ["m2"], ["m3", "m4", "m1"]]
    assert [one.role for one in placement.rollouts] == ["rollouts-0", "rollouts-1", "rollouts-2"]


def test_labels_say_which_nodes_run_what() -> None:
    labelled = [
        RoleNeed("policy", 1, label="node=m3"),
        RoleNeed("engines", 1, label="node=m1"),
        ONE._replace(label="node=m3"),
    ]
    assert nodes_of(place(labelled, THREE)) == [["m3"], ["m1"], ["m3"]]
    planned = [node._replace(labels=None) for node in THREE]
    assert nodes_of(place(labelled, planned)) == [["m1"], ["m2"], ["m3"]], "a planned node has all labels"


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ([RoleNeed("policy", 1), RoleNeed("engines", 1, label="node=m9"), ONE], "no node has the label node=m9"),
        (
            [RoleNeed("policy", 1, 8, 1), RoleNeed("engines", 1), ONE],
            r"policy needs 8 GPUs on one node; .* m1 \(10.0.0.1\) 4",
        ),
        (
            [RoleNeed("policy", 1, 4, 1), RoleNeed("engines", 3, gpus=4), ONE],
            r"engines \(3 of 3\) needs 4 GPUs on one node",
        ),
    ],
)
def test_what_lacks_is_named(needs: list[RoleNeed], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        place(needs, with_gpus(4, *THREE))


def test_nothing_is_placed_on_no_node() -> None:
    with pytest.raises(ConfigError, match="there is no node"):
        place([RoleNeed("policy", 1), RoleNeed("engines", 1), ONE], [])


def test_a_plan_has_a_line_for_each_node() -> None:
    nodes = with_gpus(4, *THREE)
    placement = place([RoleNeed("policy", 1, 4, 1), RoleNeed("engines", 2, gpus=2), ONE], nodes)
    assert placement_lines(placement, nodes) == [
        "m1 (10.0.0.1): policy-0 to policy-3; 4 of 4 GPUs",
        "m2 (10.0.0.2): engines; 4 of 4 GPUs",
        "m3 (10.0.0.3): rollouts; 0 of 4 GPUs",
    ]
