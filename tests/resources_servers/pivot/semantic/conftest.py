"""Fixtures: `score` judges an action written in short against another."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from paddock.resources_servers.pivot.semantic import SemanticOptions, compare
from paddock.resources_servers.pivot.task import (
    ActionComparison,
    ExpectedAction,
    ExpectedBatch,
    ExpectedCall,
    ExpectedMessage,
)
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

Short = Any
"""`(tool, arguments)`, a list of such, or a text for a message. Arguments that are a string are sent as they are."""
Score = Callable[..., ActionComparison]


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _expected(action: Short) -> ExpectedAction:
    if isinstance(action, str):
        return ExpectedMessage(type="message", content=action)
    calls = [
        ExpectedCall(type="function_call", name=name, arguments=_arguments(arguments))
        for name, arguments in (action if isinstance(action, list) else [action])
    ]
    return ExpectedBatch(type="function_call_batch", calls=calls) if isinstance(action, list) else calls[0]


def _items(action: Short) -> list[JsonObject]:
    if isinstance(action, str):
        return [message_item(action)]
    parts = action if isinstance(action, list) else [action]
    return [message_item(part) if isinstance(part, str) else call_item(part[0], _arguments(part[1])) for part in parts]


@pytest.fixture
def score() -> Score:
    """score(expected, actual, tools=..., history=..., **options): the comparison of the two."""

    def judge(
        expected: Short,
        actual: Short,
        *,
        tools: Sequence[JsonObject] = (),
        history: Sequence[JsonObject] = (),
        **options: Any,
    ) -> ActionComparison:
        params = {"input": list(history), "tools": list(tools)}
        response = {"object": "response", "status": "completed", "output": _items(actual)}
        return compare(_expected(expected), response, params, SemanticOptions(**options))

    return judge
