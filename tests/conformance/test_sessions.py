"""Claims about the suite of sessions: a sound environment with tools passes it, each behaviour catches a broken one."""

from collections.abc import Mapping
from typing import Any

import pytest

from paddock.conformance import ServerTarget, run_behaviour, suite_for
from paddock.conformance.sessions import SUITE
from paddock.examples.inventory import InventoryServer, InventoryTask
from paddock.http import END_SESSION, Call, Route, SessionCall, SessionCallResult, read_row
from paddock.server import Handler
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import new_id

ROW: JsonObject = {"responses_create_params": {"input": "x"}, "stock": {"fig": 3, "plum": 1}, "wanted": {"fig": 5}}
SHARED: dict[str, int] = {}


class SharedShelf(InventoryServer):
    async def open_state(self, task: InventoryTask, row: Row) -> dict[str, int]:
        for item, count in task.stock.items():
            SHARED.setdefault(item, count)
        return SHARED


class DeafShelf(InventoryServer):
    async def verify(self, task: InventoryTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=0.0, reason="not_looked_at")


class EagerShelf(InventoryServer):
    async def _call_tool(self, request: SessionCall, call: Call) -> SessionCallResult:
        return await super()._call_tool(request.model_copy(update={"call_id": new_id("call")}), call)


class LenientShelf(InventoryServer):
    async def _call_tool(self, request: SessionCall, call: Call) -> SessionCallResult:
        result = await super()._call_tool(request, call)
        return result.model_copy(update={"problem": None})


class EndlessShelf(InventoryServer):
    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        async def keep(_body: JsonObject, _call: Call) -> JsonObject:
            return {}

        return {**super().handlers(), END_SESSION: keep}


BROKEN: dict[str, type[InventoryServer]] = {
    "a session comes to the verdict that its calls come to when run again": DeafShelf,
    "sessions keep apart": SharedShelf,
    "a call that no tool can take is a text for the model": LenientShelf,
    "a call that is asked again is not run again": EagerShelf,
    "a session can be ended twice, and is an infra failure after that": EndlessShelf,
}
ROWS = [read_row(ROW)]


def target(cls: type[InventoryServer]) -> ServerTarget:
    return ServerTarget("resources_servers", "shelf", cls, {}, ROWS)


@pytest.mark.parametrize("behaviour", suite_for("resources_server", InventoryServer), ids=lambda one: one.name)
async def test_the_example_passes(behaviour: Any) -> None:
    result = await run_behaviour(behaviour, target(InventoryServer), timeout_s=20.0)
    assert result.outcome == "passed", result.detail


@pytest.mark.parametrize("behaviour", SUITE, ids=lambda one: one.name)
async def test_a_broken_environment_fails(behaviour: Any) -> None:
    SHARED.clear()
    result = await run_behaviour(behaviour, target(BROKEN[behaviour.name]), timeout_s=20.0)
    assert (result.outcome, bool(result.detail)) == ("failed", True)
