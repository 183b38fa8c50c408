"""One expert's trajectory in the one form that mining works on, whatever wrote it."""

from dataclasses import dataclass, field
from typing import Any

from paddock.tools import decode_lenient
from paddock.types import JsonObject


class TrajectoryError(ValueError):
    """A record that is no trajectory, or one that lacks what a trajectory needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What an expert was shown and did, in order."""

    name: str
    """Unique among the trajectories of a file, as far as the file says."""
    form: str
    """Which form it was read from: a name of `forms.FORMS`."""
    items: list[JsonObject]
    """Messages, reasoning, calls and results, as items of the Responses API."""
    tools: list[JsonObject] = field(default_factory=list)
    """Function tools as the Responses API offers them. Where the source names none, they are made of the calls."""
    repository: str | None = None
    instance_id: str | None = None
    resolved: bool | None = None
    """Whether the expert solved the task; None: the source does not say."""
    cwd: str | None = None
    """Absolute directory in which the tools run; None: the source does not say."""
    image: str | None = None
    """The image that the expert worked in, as the source names it; None: it does not."""
    hidden_paths: tuple[str, ...] = ()
    """Absolute paths of the image that the expert's sandbox did not have."""


def tools_of_calls(items: list[JsonObject]) -> list[JsonObject]:
    """Make a tool of each name that is called, with the arguments that were ever given to it, none of them required."""
    known: dict[str, dict[str, Any]] = {}
    for item in items:
        if item.get("type") != "function_call":
            continue
        properties = known.setdefault(str(item["name"]), {})
        try:
            arguments = decode_lenient(item["arguments"])
        except ValueError:
            continue
        for name, value in arguments.items() if isinstance(arguments, dict) else ():
            properties.setdefault(name, {"type": _json_type(value)})
    return [
        {"type": "function", "name": name, "parameters": {"type": "object", "properties": properties}}
        for name, properties in known.items()
    ]


def _json_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "string")
