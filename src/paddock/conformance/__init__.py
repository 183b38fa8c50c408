"""Conformance: what every plugin of a kind does, as named checks over real servers.

    subject = find_subject("resources_server:pivot")
    results = await run_suite(suite_for(subject.kind), subject)

A plugin that passes its kind's suite works with every other plugin that passes its own.
"""

import importlib

from paddock.conformance.behaviours import Behaviour, NotApplicable, Result, expect, run_one, run_suite
from paddock.conformance.subjects import Subject, find_subject, kind_of

_MODULES = {
    "resources_servers": "paddock.conformance.resources",
    "agents": "paddock.conformance.agents",
    "models_servers": "paddock.conformance.models",
}


def suite_for(kind: str) -> list[Behaviour]:
    """The behaviours of a plugin kind, by its singular or plural name."""
    suite: list[Behaviour] = importlib.import_module(_MODULES[kind_of(kind)]).SUITE
    return suite


__all__ = [
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
