"""Rows that a trainer holds in memory, as groups that are ready to run.

Law     the members of a group share its row and its stamp; random choices for a row depend on its index, so all its
        members share them. Members of two calls never meet: each group has a cohort of its own.
Errors  a row that can't run is a group with its RowError: it ends as outcome `row`.
"""

from pathlib import Path

from paddock.collect import PlannedGroup
from paddock.collect.routing import Router
from paddock.collect.rows import RowFileLine, RowSource
from paddock.errors import RowError
from paddock.http import read_row
from paddock.types import AgentRef, JsonObject
from paddock.types.responses import new_id

_SOURCE = RowSource(Path("memory"))


def planned_group(wire: JsonObject, router: Router, *, number: int, size: int) -> PlannedGroup:
    """The group of a row with its stamps. `number`: names it where its row can't be read."""
    line = RowFileLine(number, _SOURCE, number, b"")
    try:
        row = read_row(_with_prompt(wire, router))
        agent = router.agent_of(row)
    except RowError as error:
        return PlannedGroup(line, size, None, None, error)
    return PlannedGroup(line, size, row.model_copy(update={"agent_ref": AgentRef(name=agent.name)}), agent, None)


def group_stamp(run_id: str, size: int, cohort: str | None = None) -> JsonObject:
    """The keys that stamp the rows of a group. `cohort`: members with the same one are judged together; None: a new
    one."""
    return {
        "_paddock_run_id": run_id,
        "_paddock_group_size": size,
        "_paddock_cohort": cohort or new_id("cohort"),
    }


def _with_prompt(wire: JsonObject, router: Router) -> JsonObject:
    """The row with an empty request where its agent makes the model's request itself."""
    return {"responses_create_params": {"input": []}, **wire} if router.makes_prompt(wire) else wire
