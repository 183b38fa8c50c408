"""Claims about `scripts/settings.py`, which lists the keys of configs: it refuses one whose meaning is not written."""

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent


class Explained(BaseModel):
    key: int = 1
    """What it does."""


class Inner(Explained):
    bare: int = 1


class Outer(BaseModel):
    inner: Inner = Inner()
    """A block."""
    others: list[Inner] = []
    """Blocks."""


Refused = Callable[[type[BaseModel]], list[str]]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """The keys that a check of one model refuses, a line each."""
    spec = spec_from_file_location("settings_page", ROOT / "scripts" / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)

    def check(model: type[BaseModel]) -> list[str]:
        monkeypatch.setattr(script, "models", lambda: [("A title", {model: "`a_model`"})])
        assert script.main("--check") == 1  # the page has other models
        return [line for line in capsys.readouterr().out.splitlines() if "has no meaning" in line]

    return check


def test_a_key_without_a_meaning_is_named_with_its_file_once(refused: Refused) -> None:
    (message,) = refused(Outer)
    assert message.startswith("tests/test_settings_page.py: Inner.bare has no meaning")


def test_keys_that_have_one_are_not_named(refused: Refused) -> None:
    assert refused(Explained) == []
