"""What a row's visible text says of its fix. Pure.

Lines   a line that the fix adds is distinctive when it is long enough, is no import, comment or bracket, and stands
        nowhere in the files that the fix changes.
Visible the problem statement, and the input that the row's request gives to a model.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from paddock.resources_servers.swe.checking.drafts import Draft
from paddock.resources_servers.swe.checking.records import Finding, some, warning
from paddock.resources_servers.swe.grading.patches import sections
from paddock.resources_servers.swe.making.paths import is_test
from paddock.resources_servers.swe.making.row import notes

SHORTEST_LINE = 20
"""Characters of a distinctive line, blanks at its ends left out."""
_PLAIN = re.compile(r"^(#|//|\*|/\*|import\b|from \S+ import\b|[\W_]+$|\"\"\")")


class FixedFile(NamedTuple):
    """A file that the fix changes."""

    path: str
    """Below the workdir."""
    added: list[str]
    """Distinctive among themselves: blanks at the ends left out, each once."""


def fixed_files(gold: bytes) -> list[FixedFile]:
    """The files of a fix, in its order."""
    return [FixedFile(part.path, _lines(part.added_lines())) for part in sections(gold) if part.path]


def distinctive(files: Iterable[FixedFile], before: str) -> list[str]:
    """Added lines that are not in `before`, the text of the files without the fix."""
    return list(dict.fromkeys(line for file in files for line in file.added if line not in before))


def check_text(draft: Draft, files: list[FixedFile], lines: Iterable[str], tests: Iterable[str]) -> list[Finding]:
    """Warnings about what an agent reads. `lines`: distinctive ones; `tests`: paths of hidden tests."""
    instance = draft.instance
    text = "\n".join((instance.problem_statement, *_strings(draft.row.get("responses_create_params", {}).get("input"))))
    found = []
    told = [line for line in lines if line in text]
    if told:
        found.append(
            warning(
                "text_has_fix",
                f"the text shown has lines of the fix: {some(told, 3)}",
                "describe the wrong, not the fix",
            )
        )
    paths = [file.path for file in files if not is_test(file.path)]
    said = notes(text, paths, sorted(tests))
    found += [warning("text_hints", note) for note in said]
    return found


def _lines(added: Iterable[bytes]) -> list[str]:
    texts = (line.decode(errors="replace").strip() for line in added)
    return list(dict.fromkeys(text for text in texts if len(text) >= SHORTEST_LINE and not _PLAIN.match(text)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
