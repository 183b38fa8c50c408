"""Environments with tools: what the model is shown of a method, and what becomes of sessions that nobody ends."""

import asyncio
import logging
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from paddock.errors import BugError, InfraError
from paddock.examples.inventory import InventoryServer
from paddock.http import CALL_TOOL, SEED, Call, SessionCall, read_row
from paddock.server import ToolsServerConfig, tool
from paddock.server.environment_tools import call_tool, tools_of
from paddock.testing.transports import over

ROW = read_row({"responses_create_params": {"input": "x"}, "stock": {"fig": 3}, "wanted": {}})


class WeatherPlace(BaseModel):
    city: str
    title: str = ""


class Weather:
    """Not a server: tools are read from any class."""

    @tool
    async def forecast(
        self,
        state: Any,
        place: WeatherPlace,
        unit: Literal["C", "F"] = "C",
        days: Annotated[int, Field(ge=1, description="How many.")] = 3,
    ) -> list[int]:
        """Tell the
        weather.

        More than the model needs.
        """
        return [20] * days

    def helper(self, state: Any) -> None:
        """No tool."""


class ColderWeather(Weather):
    @tool(ends=True)
    def leave(self, state: Any) -> str:
        return ""

    helper: Any = None


def test_a_method_is_shown_as_a_function() -> None:
    (forecast,) = tools_of(Weather).values()
    assert forecast.definition == {
        "type": "function",
        "name": "forecast",
        "description": "Tell the weather.",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "required": ["place"],
            "properties": {
                "place": {
                    "type": "object",
                    "required": ["city"],
                    "properties": {"city": {"type": "string"}, "title": {"type": "string", "default": ""}},
                },
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {"type": "integer", "minimum": 1, "default": 3, "description": "How many."},
            },
        },
    }


def test_a_class_has_the_tools_of_its_bases() -> None:
    assert {name: one.ends for name, one in tools_of(ColderWeather).items()} == {"forecast": False, "leave": True}


async def test_results_are_texts_or_json() -> None:
    tools = tools_of(ColderWeather)
    read = await call_tool(ColderWeather(), tools, None, "forecast", '{"place": {"city": "Oslo"}, "days": 2}')
    assert (read.text, read.problem, read.done) == ("[20,20]", None, False)
    left = await call_tool(ColderWeather(), tools, None, "leave", "")
    assert (left.text, left.done) == ("", True)


def _untyped(self: Any, state: Any, city) -> str:  # type: ignore[no-untyped-def]
    return ""


def _nameless(self: Any, state: Any, *cities: str) -> str:
    return ""


@pytest.mark.parametrize(("method", "why"), [(_untyped, "`city` has no type"), (_nameless, "arguments have names")])
def test_a_method_that_can_be_no_tool_is_named(method: Callable[..., str], why: str) -> None:
    with pytest.raises(BugError, match=why):
        tools_of(type("Odd", (), {"visit": tool(method)}))


class Shelf(InventoryServer):
    def __init__(self, idle_s: float = 3600.0, *, broken: bool = False) -> None:
        super().__init__(ToolsServerConfig(session_idle_s=idle_s), name="shelf", peers={})
        self.closed: list[dict[str, int]] = []
        self.broken = broken

    async def close_state(self, state: dict[str, int]) -> None:
        self.closed.append(state)
        if self.broken:
            raise OSError("stuck")

    @tool
    async def wait(self, stock: dict[str, int]) -> None:
        """Never answer."""
        await asyncio.Event().wait()


async def test_a_session_that_nobody_uses_is_ended() -> None:
    shelf = Shelf(idle_s=0.1)
    async with over("direct", shelf) as at:
        session = await at["shelf"].call(SEED, ROW, Call())
        await asyncio.sleep(0.4)
        assert shelf.closed == [{"fig": 3}]
        with pytest.raises(InfraError, match=r"nothing was asked of it for 0\.1 s"):
            request = SessionCall(name="move", arguments="{}", call_id="c")
            await at["shelf"].call(CALL_TOOL, request, Call(), session=str(session.session_id))


async def test_a_session_whose_call_runs_is_in_use() -> None:
    shelf = Shelf(idle_s=0.1)
    async with over("direct", shelf) as at:
        session = str((await at["shelf"].call(SEED, ROW, Call())).session_id)
        request = SessionCall(name="wait", arguments="{}", call_id="c")
        waiting = asyncio.create_task(at["shelf"].call(CALL_TOOL, request, Call(), session=session))
        await asyncio.sleep(0.4)
        assert shelf.closed == []
    await asyncio.gather(waiting, return_exceptions=True)
    assert shelf.closed == [{"fig": 3}]


async def test_the_servers_end_ends_all_sessions_also_where_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf(broken=True)
    with caplog.at_level(logging.ERROR, "paddock.server"):
        async with over("direct", shelf) as at:
            for _ in range(3):
                await at["shelf"].call(SEED, ROW, Call())
    assert len(shelf.closed) == 3
    assert "shelf: close_state" in caplog.text
