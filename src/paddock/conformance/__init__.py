"""Conformance: what every plugin of a kind does, as named checks over real servers.

    subject = find_subject("resources_server:pivot")
    results = await run_suite(suite_for(subject.kind), subject)

A plugin that passes its kind's suite works with every other plugin that passes its own.
"""

import importlib
from typing import Any

from paddock.conformance.behaviours import Behaviour, NotApplicable, Result, expect, run_one, run_suite
from paddock.conformance.subjects import SANDBOX_WORDS, Subject, find_subject, kind_of

_MODULES = {
    "resources_servers": "paddock.conformance.resources",
    "agents": "paddock.conformance.agents",
    "models_servers": "paddock.conformance.models",
    "sandboxes": "paddock.conformance.sandboxes",
}


def suite_for(kind: str) -> list[Behaviour[Any]]:
    """The behaviours of a plugin kind or of sandboxes, by its singular or plural name."""
    plural = "sandboxes" if kind in SANDBOX_WORDS else kind_of(kind)
    suite: list[Behaviour[Any]] = importlib.import_module(_MODULES[plural]).SUITE
    return suite


__all__ = [
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
