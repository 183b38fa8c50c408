"""Claims about rows as members of groups, whatever rows a trainer sends."""

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.collect.routing import Router
from paddock.config import load
from paddock.training.nemo_rl.member_requests import member_requests
from paddock.types import JsonObject

REFERS = {
    "resources_server": {"type": "resources_servers", "name": "environment"},
    "model_server": {"type": "models_servers", "name": "policy_model"},
}
SCRIPTED = "paddock.conformance.scripted"
ROUTER = Router(
    load(
        [],
        extra={
            "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
            "policy_model": {"models_servers": {f"{SCRIPTED}:ScriptedModel": {}}},
            "agent": {"agents": {"single_step": REFERS}},
        },
    )
)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def rows(sizes: list[int], *, indexed: bool, first: int) -> list[JsonObject]:
    """Copies of a row for each size; neighbours differ."""
    made: list[JsonObject] = []
    for nth, size in enumerate(sizes):
        params = {"input": f"question {nth % 2}", "temperature": 1.0}
        index = {"_ng_task_index": first + nth} if indexed else {}
        made += [{"responses_create_params": params, "answer": "a", **index} for _ in range(size)]
    return [{**row, "_rowidx": nth} for nth, row in enumerate(made)]


@settings(max_examples=30)
@given(sizes=SIZES, indexed=st.booleans(), first=st.integers(0, 10**6))
def test_groups_are_what_stands_together(sizes: list[int], indexed: bool, first: int) -> None:
    sent = rows(sizes, indexed=indexed, first=first)
    found = member_requests(sent, ROUTER, run_id="run")
    assert [one.given is row for one, row in zip(found, sent, strict=True)] == [True] * len(sent)
    stamps = [one.group.row.stamp for one in found if one.group.row is not None]
    groups = [list(members) for _, members in groupby(stamps, key=lambda stamp: stamp.cohort)]
    assert [len(members) for members in groups] == sizes
    assert len({members[0].cohort for members in groups}) == len(sizes)
    for nth, members in enumerate(groups):
        assert [stamp.member for stamp in members] == list(range(len(members)))
        assert {stamp.group_size for stamp in members} == {len(members)}
        assert {stamp.group_id for stamp in members} == {first + nth if indexed else None}
    assert [one.member for one in found] == [stamp.member for stamp in stamps]


@settings(max_examples=30)
@given(sizes=SIZES)
def test_a_row_keeps_what_it_is_and_loses_only_its_number(sizes: list[int]) -> None:
    sent = rows(sizes, indexed=True, first=0)
    for one in member_requests(sent, ROUTER, run_id="run"):
        assert one.group.row is not None
        assert (one.group.row.task, one.group.error) == ({"answer": "a"}, None)
        assert one.group.row.responses_create_params == one.given["responses_create_params"]


@settings(max_examples=30)
@given(sizes=SIZES)
def test_sent_again_it_is_another_group(sizes: list[int]) -> None:
    sent = rows(sizes, indexed=True, first=0)
    cohorts = [
        {one.group.row.stamp.cohort for one in member_requests(sent, ROUTER, run_id="run") if one.group.row}
        for _ in range(2)
    ]
    assert not cohorts[0] & cohorts[1]
