"""Conformance: what every plugin of a kind does, as named checks over real servers.

    target = find_target("resources_server:pivot")
    results = await run_suite(suite_for(target.kind), target)

A plugin that passes its kind's suite works with every other plugin that passes its own.
"""

import importlib
from typing import Any

from paddock.conformance.behaviours import Behaviour, BehaviourResult, NotApplicable, expect, run_behaviour, run_suite
from paddock.conformance.target import HARNESS_WORDS, SANDBOX_WORDS, ServerTarget, find_target, kind_of
from paddock.server import ToolsServer

_MODULES = {
    "resources_servers": "paddock.conformance.resources",
    "agents": "paddock.conformance.agents",
    "models_servers": "paddock.conformance.models",
    "sandboxes": "paddock.conformance.sandboxes",
    "harnesses": "paddock.conformance.harnesses",
}


def suite_for(kind: str, cls: type | None = None) -> list[Behaviour[Any]]:
    """The behaviours of a plugin kind or of sandboxes, by its singular or plural name. `cls`: of the plugin: one that
    serves tools has those of sessions beside its kind's."""
    others = {**dict.fromkeys(SANDBOX_WORDS, "sandboxes"), **dict.fromkeys(HARNESS_WORDS, "harnesses")}
    suite: list[Behaviour[Any]] = importlib.import_module(_MODULES[others.get(kind) or kind_of(kind)]).SUITE
    if cls is not None and issubclass(cls, ToolsServer):
        return [*suite, *importlib.import_module("paddock.conformance.sessions").SUITE]
    return suite


__all__ = [
    "HARNESS_WORDS",
    "SANDBOX_WORDS",
    "Behaviour",
    "BehaviourResult",
    "NotApplicable",
    "ServerTarget",
    "expect",
    "find_target",
    "kind_of",
    "run_behaviour",
    "run_suite",
    "suite_for",
]
