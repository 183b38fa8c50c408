"""What a row's visible text gives away of its fix. Pure.

Lines   a line that the fix adds is distinctive when it is long enough, is no import, comment or bracket, and stands
        nowhere in the files that the fix changes.
Visible the problem statement, and the input that the row's request gives to a model.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from paddock.resources_servers.swe.checks.drafts import RowDraft
from paddock.resources_servers.swe.checks.records import CheckFinding, some, warning
from paddock.resources_servers.swe.from_commits.paths import is_test
from paddock.resources_servers.swe.from_commits.row import notes
from paddock.resources_servers.swe.grading.patches import sections

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
    """Return the files of a fix, in its order."""
    return [FixedFile(part.path, _lines(part.added_lines())) for part in sections(gold) if part.path]


def distinctive(files: Iterable[FixedFile], before: str) -> list[str]:
    """Return the added lines that are not in `before`, the text of the files without the fix."""
    return list(dict.fromkeys(line for file in files for line in file.added if line not in before))


def check_text(
    draft: RowDraft, files: list[FixedFile], lines: Iterable[str], tests: Iterable[str]
) -> list[CheckFinding]:
    """Warn about what an agent reads. `lines` are distinctive ones; `tests` are paths of hidden tests."""
    instance = draft.instance
    text = "\n".join((instance.problem_statement, *_strings(draft.row.get("responses_create_params", {}).get("input"))))
    findings = []
    shown = [line for line in lines if line in text]
    if shown:
        findings.append(
            warning(
                "text_has_fix",
                f"the text shown has lines of the fix: {some(shown, 3)}",
                "describe the wrong, not the fix",
            )
        )
    paths = [file.path for file in files if not is_test(file.path)]
    hints = notes(text, paths, sorted(tests))
    findings += [warning("text_hints", note) for note in hints]
    return findings


def _lines(added: Iterable[bytes]) -> list[str]:
    texts = (line.decode(errors="replace").strip() for line in added)
    return list(dict.fromkeys(text for text in texts if len(text) >= SHORTEST_LINE and not _PLAIN.match(text)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
