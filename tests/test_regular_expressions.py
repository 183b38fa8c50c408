"""Regular expressions that every Python we run on reads alike."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("src/paddock", "agents", "harnesses", "models_servers", "resources_servers", "training")
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
CHARACTERS = {"harnesses/opencode/regexes.py"}
"""Its text is a list of characters."""


def test_no_group_is_possessive() -> None:
    """Python 3.11.0 to 3.11.4, as in Debian 12, match such a group wrongly where it can backtrack (gh-106052)."""
    found = {
        str(file.relative_to(ROOT))
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and POSSESSIVE_GROUP.search(node.value)
    }
    assert found - {f"src/paddock/{name}" for name in CHARACTERS} == CHARACTERS
