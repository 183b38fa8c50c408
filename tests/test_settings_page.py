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


Unexplained = Callable[[type[BaseModel]], list[str]]


@pytest.fixture
def unexplained() -> Unexplained:
    """The keys of one model, and of its blocks, that have no meaning."""
    spec = spec_from_file_location("settings_page", ROOT / "scripts" / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return lambda model: script.unexplained([("A title", {model: "`a_model`"})])


def test_a_key_without_a_meaning_is_named_with_its_file_once(unexplained: Unexplained) -> None:
    assert unexplained(Outer) == ["tests/test_settings_page.py: Inner.bare"]


def test_keys_that_have_one_are_not_named(unexplained: Unexplained) -> None:
    assert unexplained(Explained) == []
