"""Claims about files of known preferences: ours and HelpSteer3's are read, what can't be is named with its place."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.errors import ConfigError
from paddock.resources_servers.genrm.calibration import read_preferences
from paddock.types.responses import messages

OURS = {"conversation_history": "Why?", "response_1": "So.", "response_2": "Because.", "preference": 2, "strength": 3}
PUBLISHED = {
    "domain": "code",
    "context": [{"role": "user", "content": "Why?"}],
    "response1": "Because.",
    "response2": "So.",
    "overall_preference": -2,
}


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "preferences.jsonl"
    path.write_bytes(b"\n\n".join(row if isinstance(row, bytes) else orjson.dumps(row) for row in rows) + b"\n")
    return path


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    ours, published = read_preferences(written(tmp_path, OURS, PUBLISHED))
    assert ours.history == published.history == [{"role": "user", "content": "Why?"}]
    assert (ours.preferred, ours.strength, ours.line) == (1, 3, 1)
    assert (published.preferred, published.strength, published.line) == (0, 2, 3)
    assert messages(ours.responses[1]) == messages(published.responses[0]) == ["Because."]


def test_a_tie_prefers_neither(tmp_path: Path) -> None:
    path = written(tmp_path, {**OURS, "preference": 0, "strength": None}, {**PUBLISHED, "overall_preference": 0})
    assert [(one.preferred, one.strength) for one in read_preferences(path)] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**OURS, "preference": True}, "preference: needs 1 or 2"),
        ({**OURS, "preference": 3}, "preference: needs 1 or 2"),
        ({**OURS, "strength": 4}, "strength: needs 1 to 3"),
        ({**OURS, "response_2": None}, "response_2: needs a text"),
        ({**OURS, "conversation_history": []}, "conversation_history: needs a list"),
        ({**PUBLISHED, "overall_preference": 4}, "overall_preference: needs -3 to 3"),
        ([1], "needs an object"),
        (b"{", "no JSON"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, row: Any, said: str) -> None:
    path = written(tmp_path, OURS, row)
    with pytest.raises(ConfigError, match=rf"{path}:3: {said}"):
        read_preferences(path)


def test_a_file_without_preferences_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no preferences"):
        read_preferences(written(tmp_path))
    with pytest.raises(ConfigError, match="can't be read"):
        read_preferences(tmp_path / "none.jsonl")
