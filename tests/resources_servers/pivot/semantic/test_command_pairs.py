"""Claims on many commands: what does the same is paid in full, what only looks like it never is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.types import JsonObject

Score = Callable[..., Any]
PAIRS = json.loads(Path(__file__).with_name("command_pairs.json").read_text())


def sh(command: str) -> tuple[str, JsonObject]:
    return "execute_bash", {"command": command}


@pytest.mark.parametrize("expected", PAIRS["same"])
def test_other_forms_of_a_command_are_paid(score: Score, expected: str) -> None:
    found = {other: score(sh(expected), sh(other), cwd="/repo").reward for other in PAIRS["same"][expected]}
    assert found == dict.fromkeys(found, 1.0)


@pytest.mark.parametrize("expected", PAIRS["other"])
def test_what_only_looks_like_a_command_is_not(score: Score, expected: str) -> None:
    found = {other: score(sh(expected), sh(other), cwd="/repo").reward for other in PAIRS["other"][expected]}
    assert found == dict.fromkeys(found, 0.0)
