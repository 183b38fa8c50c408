"""The form of the corpus's files: blocks of `=== NAME`, each with lines of `key: value` and then its text."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^=== (.+)\n", re.MULTILINE)
_KEY = re.compile(r"([a-z]+): (.*)\n")


class CorpusBlock(NamedTuple):
    """One block of a file."""

    name: str
    keys: dict[str, str]
    text: str


def read_blocks(path: Path) -> Iterator[CorpusBlock]:
    """All blocks of a file."""
    _, *parts = _BLOCK.split(path.read_text())
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        keys, at = {}, 0
        while found := _KEY.match(text, at):
            keys[found[1]] = found[2]
            at = found.end()
        yield CorpusBlock(name, keys, text[at:])
