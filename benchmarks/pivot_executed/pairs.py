"""Pairs of actions that both comparators judge, and where they start from."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from paddock.types.responses import call_item


class Act(NamedTuple):
    """One way to do something."""

    means: str
    tool: str
    arguments: dict[str, Any]
    near_miss: bool = False
    """It is meant to do something else, though here it may come out the same."""

    def call(self) -> dict[str, Any]:
        return call_item(self.tool, json.dumps(self.arguments))


class Start(NamedTuple):
    """The step at which both actions are taken."""

    image: str
    workdir: str
    history: list[dict[str, Any]]


class Neighbours(NamedTuple):
    """What else the trajectory speaks of: what near misses are made of."""

    paths: Sequence[str]
    patterns: Sequence[str]
    workdir: str


class ActionPair(NamedTuple):
    """An expert's action, and another that is held against it."""

    family: str
    expected: Act
    actual: Act
    start: Start


def shell(means: str, command: str) -> Act:
    return Act(means, "bash", {"command": command})


def miss(means: str, command: str) -> Act:
    return shell(means, command)._replace(near_miss=True)


def misses(acts: Iterable[Act]) -> list[Act]:
    return [act._replace(near_miss=True) for act in acts]


def editor(means: str, **arguments: Any) -> Act:
    return Act(means, "str_replace_editor", arguments)
