"""Names as an instance's own tests have them, drawn from their words: no list of ours gives away what is drawn.

Words   of the names of the reference's test files, of the test files beside them and of the functions in the former;
        where these are few, of all that the reference's tests say; where that is little too, also of `SPARE`.
Free    a drawn name is no part of a path, a text or an id of the row's tests: no result of theirs is taken for ours.
"""

import keyword
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from random import Random

ENOUGH = 8
"""Words, for names that differ from draw to draw."""
SPARE = (
    "value",
    "order",
    "field",
    "empty",
    "record",
    "nested",
    "option",
    "unicode",
    "header",
    "default",
    "path",
    "keeps",
)
_LONGER_AFTER = 20
"""Names that were taken, after which a name gets a word more."""
_FUNCTION = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE)
_WORD = re.compile(r"[A-Z]?[a-z]{2,11}")
_NOT_OURS = frozenset({"test", "tests", "testing", "pytest", "unittest", "setup", "teardown", "self", *keyword.kwlist})


class NameVocabulary:
    """The words of one instance's tests."""

    def __init__(self, files: Mapping[str, bytes], beside: Iterable[str] = (), ids: Iterable[str] = ()) -> None:
        """`files` are the reference's tests by path, `beside` paths of other test files, `ids` of listed tests."""
        paths = [*files, *beside]
        functions = [name.decode() for text in files.values() for name in _FUNCTION.findall(text)]
        words = _words(*(PurePosixPath(path).stem for path in paths), *functions)
        if len(words) < ENOUGH:
            words |= _words(*(text.decode("ascii", "ignore") for text in files.values()))
        if len(words) < ENOUGH:
            words |= set(SPARE)
        self._words = sorted(words)
        self._taken = b"\n".join([*files.values(), "\n".join([*paths, *ids]).encode("utf-8", "surrogateescape")])

    def word(self, chance: Random) -> str:
        return chance.choice(self._words)

    def name(self, chance: Random, prefix: str = "") -> str:
        """Draw a free name of two words or more."""
        tries = 0
        while True:
            words = [self.word(chance) for _ in range(chance.choice((2, 2, 3)) + tries // _LONGER_AFTER)]
            name = prefix + "_".join(words)
            if name.encode() not in self._taken:
                return name
            tries += 1


def _words(*texts: str) -> set[str]:
    return {word.lower() for text in texts for word in _WORD.findall(text)} - _NOT_OURS
