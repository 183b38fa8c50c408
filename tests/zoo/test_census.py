"""The zoo is whole: every channel of the leak and hack catalogue that this environment has, has an animal.

L16 to L18 are those of judges, groups and comparators: nothing here is judged by a model or against its siblings.
"""

from collections.abc import Callable
from typing import Any

CHANNELS = {f"L{number}" for number in range(1, 22)} - {"L16", "L17", "L18"}


def test_every_channel_has_a_cheater(census: Callable[[str], list[Any]]) -> None:
    cheaters = [*census("cheaters"), *census("agents")]
    assert {one.keys["channel"] for one in cheaters} == CHANNELS
    assert len(cheaters) >= 100


def test_there_are_honest_ones_of_many_kinds(census: Callable[[str], list[Any]]) -> None:
    assert len(census("honest")) >= 18
    assert len(census("workers")) >= 15
