"""Claims about profiles that extend others."""

import json
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.harness.native import load_profile
from paddock.types import JsonObject

BASH: JsonObject = {"type": "function", "name": "bash"}
READ: JsonObject = {"type": "function", "name": "read"}
WRITE: JsonObject = {"type": "function", "name": "write"}
BASE: JsonObject = {"source": "p 1", "tools": [BASH, READ], "system": None, "user": "u", "options": {"a": 1, "b": {}}}


def extending(folder: Path, **given: Any) -> Any:
    (folder / "profiles").mkdir()
    (folder / "profiles/base.json").write_text(json.dumps(BASE))
    (folder / "profiles/more.json").write_text(json.dumps({"source": "p 2", "extends": "base", **given}))
    return load_profile(folder, "more")


def test_a_profile_takes_from_another_what_it_does_not_say(tmp_path: Path) -> None:
    found = extending(tmp_path, tools=[WRITE, "bash"], options={"a": 2})
    assert found.model_dump() == load_profile(tmp_path, "base").model_dump() | {
        "source": "p 2",
        "tools": [WRITE, BASH],
        "options": {"a": 2, "b": {}},
    }


def test_a_tool_that_the_other_lacks_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"more\.json: tools\.1: .*'bahs'"):
        extending(tmp_path, tools=["read", "bahs"])


def test_a_profile_that_there_is_not_can_not_be_extended(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'bose': not one of base, more"):
        extending(tmp_path, extends="bose")
