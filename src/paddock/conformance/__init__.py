"""Conformance: what every plugin of a kind does, as named checks over real servers.

    subject = find_subject("resources_server:pivot")
    results = await run_suite(suite_for(subject.kind), subject)

A plugin that passes its kind's suite works with every other plugin that passes its own.
"""

import importlib
from typing import Any

from paddock.conformance.behaviours import Behaviour, NotApplicable, Result, expect, run_one, run_suite
from paddock.conformance.subjects import HARNESS_WORDS, SANDBOX_WORDS, Subject, find_subject, kind_of

_MODULES = {
    "resources_servers": "paddock.conformance.resources",
    "agents": "paddock.conformance.agents",
    "models_servers": "paddock.conformance.models",
    "sandboxes": "paddock.conformance.sandboxes",
    "harnesses": "paddock.conformance.harnesses",
}


def suite_for(kind: str) -> list[Behaviour[Any]]:
    """The behaviours of a plugin kind or of sandboxes, by its singular or plural name."""
    others = {**dict.fromkeys(SANDBOX_WORDS, "sandboxes"), **dict.fromkeys(HARNESS_WORDS, "harnesses")}
    suite: list[Behaviour[Any]] = importlib.import_module(_MODULES[others.get(kind) or kind_of(kind)]).SUITE
    return suite


__all__ = [
    "HARNESS_WORDS",
    "SANDBOX_WORDS",
    "Behaviour",
    "NotApplicable",
    "Result",
    "Subject",
    "expect",
    "find_subject",
    "kind_of",
    "run_one",
    "run_suite",
    "suite_for",
]
