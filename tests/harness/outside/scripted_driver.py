"""A program of a test's own: the code that it starts with, which may set `ended`."""

from typing import Any


def drive(bridge: Any, start: dict[str, Any]) -> dict[str, Any]:
    names: dict[str, Any] = {"bridge": bridge, "start": start, "ended": {"ended": "finished", "text": None}}
    exec(start["code"], names)
    ended: dict[str, Any] = names["ended"]
    return ended
