"""Claims about where roles run: what shares tensors shares a node, labels hold, and what lacks is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.training.grpo.placement import ClusterNode, RoleNeed, RolePlace, RolePlacement, place, placement_lines

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


def spread(stages: int, gpus: int, *nodes: ClusterNode, replicas: int = 1, policy: int = 0) -> list[RolePlace]:
    """The places of replicas of so many stages and GPUs, beside a policy of so many GPUs."""
    needs = [RoleNeed("policy", policy, gpus=1), RoleNeed("engines", replicas, gpus=gpus, stages=stages), ONE]
    return place(needs, nodes).engines


def ranks_of(made: RolePlace) -> list[str]:
    return [node.name for node in made.ranks]


def test_a_replica_that_one_node_has_room_for_is_not_spread() -> None:
    (made,) = spread(2, 4, *with_gpus(4, *THREE))
    assert (made.node.name, made.gpus, made.ranks) == ("m1", 4, ())


def test_stages_of_a_replica_larger_than_a_node_are_on_one_node_each() -> None:
    (made,) = spread(3, 6, *with_gpus(4, *THREE), policy=1)
    assert ranks_of(made) == ["m1", "m1", "m2", "m2", "m2", "m2"]
    assert (made.node.name, made.gpus, made.replicas, made.gpus_per_rank) == ("m1", 0, 0, 1)
    (made,) = spread(2, 6, *with_gpus(4, *THREE), policy=2)
    assert ranks_of(made) == ["m2", "m2", "m2", "m3", "m3", "m3"]


def test_tensors_cross_nodes_only_where_a_stage_is_larger_than_a_node() -> None:
    (made,) = spread(1, 6, *with_gpus(4, *THREE), policy=1)
    assert ranks_of(made) == ["m1", "m1", "m1", "m2", "m2", "m2"]


def test_each_spread_replica_is_a_role_with_a_worker_of_its_own() -> None:
    nodes = with_gpus(4, *THREE, THREE[0]._replace(name="m4", id="m4"))
    needs = [RoleNeed("policy", 0), RoleNeed("engines", 2, gpus=8, stages=2), ONE]
    placement = place(needs, nodes)
    assert [(one.role, one.replicas, ranks_of(one)) for one in placement.engines] == [
        ("engines-0", 1, ["m1"] * 4 + ["m2"] * 4),
        ("engines-1", 1, ["m3"] * 4 + ["m4"] * 4),
    ]
    assert [one.role for one in placement.rollouts] == ["rollouts-0", "rollouts-1"]


def test_without_gpus_the_stages_are_spread_and_each_node_s_follow_each_other() -> None:
    needs = [RoleNeed("policy", 1), RoleNeed("engines", 1, stages=3), ONE]
    (made,) = place(needs, THREE[:2]).engines
    assert ranks_of(made) == ["m2", "m2", "m1"]
    assert (made.node.name, made.gpus_per_rank) == ("m2", 0)
    (alone,) = place(needs, THREE[:1]).engines
    assert ranks_of(alone) == ["m1", "m1", "m1"]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 5), st.integers(1, 3))
def test_no_gpu_is_taken_twice_and_a_server_has_the_first_ranks(
    sizes: list[int], stages: int, per_stage: int, replicas: int
) -> None:
    nodes = [ClusterNode(f"n{nth}", id=str(nth), gpus=gpus) for nth, gpus in enumerate(sizes)]
    try:
        made = spread(stages, stages * per_stage, *nodes, replicas=replicas)
    except ConfigError:
        return
    assert all(sum(one.gpus_on(node) for one in made) <= node.gpus for node in nodes)
    assert sum(one.gpus_on(node) for one in made for node in nodes) == replicas * stages * per_stage
    for one in made:
        names = ranks_of(one)
        assert names == sorted(names, key=names.index), "a node's ranks follow each other"
        assert not names or one.node.name == names[0]
        if per_stage <= max(sizes):
            parts = [set(names[at : at + per_stage]) for at in range(0, len(names), per_stage)]
            assert all(len(part) == 1 for part in parts)


def test_more_rollout_workers_than_nodes_with_engines_are_spread_over_what_is_left() -> None:
    needs = [RoleNeed("policy", 1), RoleNeed("engines", 1), ONE._replace(blocks=3)]
    placement = place(needs, [*THREE, THREE[2]._replace(name="m4", id="m4")])
    assert nodes_of(placement) == [["m1"], ["m2"], ["m3", "m4", "m1"]]
    assert [one.role for one in placement.rollouts] == ["rollouts-0", "rollouts-1", "rollouts-2"]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True), st.lists(st.integers(0, 4), max_size=6))
def test_engines_have_as_many_workers_each_and_those_of_their_own_node_first(hosts: list[int], more: list[int]) -> None:
    nodes = [ClusterNode(f"m{nth}", id=str(nth)) for nth in range(5)]
    workers = [*reversed(hosts), *more]
    placement = RolePlacement(
        [],
        [RolePlace(f"engines-{nth}", nodes[node]) for nth, node in enumerate(hosts)],
        [RolePlace(f"rollouts-{nth}", nodes[node]) for nth, node in enumerate(workers)],
    )
    shares = placement.workers
    assert sorted(one.role for share in shares for one in share) == sorted(one.role for one in placement.rollouts)
    counts = [len(share) for share in shares]
    assert min(counts) > 0
    assert max(counts) - min(counts) <= 1
    for host, share in zip(placement.engines, shares, strict=True):
        near = sum(one.node == host.node for one in placement.rollouts)
        assert sum(one.node == host.node for one in share) >= min(near, len(workers) // len(hosts))


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
        (
            [RoleNeed("policy", 1), RoleNeed("engines", 1, stages=2, label="node=m9"), ONE],
            "no node has the label node=m9",
        ),
        (
            [RoleNeed("policy", 9, gpus=1), RoleNeed("engines", 1, gpus=8, stages=2), ONE],
            r"a replica of engines, stage \(1 of 2\) needs 4 GPUs on one node; .* m3 \(10.0.0.3\) 3",
        ),
        (
            [RoleNeed("policy", 3, gpus=1), RoleNeed("engines", 2, gpus=5), ONE],
            r"replica 2 of 2 of engines, rank \(5 of 5\) needs 1 GPUs on one node",
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


def test_a_plan_says_which_ranks_of_a_spread_replica_each_node_has() -> None:
    nodes = [*with_gpus(4, *THREE[:2]), THREE[2]._replace(gpus=8)]
    placement = place([RoleNeed("policy", 1, 3, 1), RoleNeed("engines", 1, gpus=9, stages=3), ONE], nodes)
    assert placement_lines(placement, nodes) == [
        "m1 (10.0.0.1): policy-0 to policy-2, rollouts; 3 of 4 GPUs",
        "m2 (10.0.0.2): engines, ranks 0 to 2 of the 9 of engines; 3 of 4 GPUs",
        "m3 (10.0.0.3): ranks 3 to 8 of the 9 of engines; 6 of 8 GPUs",
    ]
