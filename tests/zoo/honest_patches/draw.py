"""Honest patches, drawn by a seed: a row's right fix, changed in one way or several, in one of the forms of a patch.

Law     a patch is drawn by its seed and number alone: the same subjects give the same patch.
Spread  each transformation is the first of some patch before any is so twice; the next ones, the subject and the form
        are drawn. Where the first has no room in the subject that is drawn, it is tried in the others; then the next
        takes its place.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.zoo.honest_patches.additions import BEHAVIOUR, SURROUNDINGS
from tests.zoo.honest_patches.code import CODE
from tests.zoo.honest_patches.draft import Draft, PatchSubject, Transformation
from tests.zoo.honest_patches.forms import FORMS
from tests.zoo.honest_patches.places import PLACES

TRANSFORMATIONS: tuple[Transformation, ...] = (*PLACES, *CODE, *BEHAVIOUR, *SURROUNDINGS)
AT_MOST = 4
"""Transformations of one patch."""
PLAIN_SHARE = 0.4
"""Share of patches in the form that git has without options."""


class HonestPatch(NamedTuple):
    """A right fix."""

    number: int
    subject: str
    changes: list[str]
    """Names of the transformations, in their order."""
    form: str
    patch: bytes


def draw(subjects: Sequence[PatchSubject], seed: int, number: int) -> HonestPatch:
    """The patch of a number."""
    chance = Random(f"{seed}/{number}")
    order = list(TRANSFORMATIONS)
    Random(f"{seed}/{number // len(order)}").shuffle(order)
    order = order[number % len(order) :] + order[: number % len(order)]
    more = chance.sample(TRANSFORMATIONS, chance.randrange(AT_MOST))
    form = "plain" if chance.random() < PLAIN_SHARE else chance.choice(sorted(FORMS))
    for first in order:
        for subject in chance.sample(subjects, len(subjects)):
            draft = Draft(subject, chance)
            try:
                if first(draft):
                    done = [first, *(one for one in more if one is not first and one(draft))]
                    return HonestPatch(number, subject.name, [one.__name__ for one in done], form, FORMS[form](draft))
            finally:
                draft.close()
    raise LookupError("no transformation has room in any subject")
