"""What a patch adds to pytest's configuration: what would be loaded with it and is not without it.

Text    of a file is the reference's with the patch's hunks; where these do not fit it exactly, what they show of it.
Links   a configuration file that the patch makes a link is read as the file that it names, where the patch has that.
Files   of arguments that a configuration names are read where the patch has them.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from paddock.edits import EditError, Hunks, PatchError, apply, parse_unified_diff
from paddock.resources_servers.swe.grading.patches import Section
from paddock.resources_servers.swe.grading.pytest_settings import (
    CONFIG_FILES,
    NOTHING,
    PytestSettings,
    listed_plugins,
    read_arguments,
    read_settings,
)

_LINK = re.compile(rb"^(new file |new )mode 120000", re.MULTILINE)


def added_settings(parts: Sequence[Section], configs: Mapping[str, bytes]) -> PytestSettings:
    """Return what a patch adds. `configs` are the reference's configuration files, by path."""
    added = NOTHING
    for part in parts:
        for settings in _of_section(part, parts, configs):
            added = added.plus(settings)
    for part in _named(parts, added.argument_files):
        added = added.plus(read_arguments(_shown(part)))
    return added


def _of_section(part: Section, parts: Sequence[Section], configs: Mapping[str, bytes]) -> Iterator[PytestSettings]:
    base = next((configs[path] for path in part.paths if path in configs), None)  # a name with `a/` is in none
    for path in part.paths:
        name = PurePosixPath(path).name
        if name in CONFIG_FILES:
            yield _of_config(name, part, base)
            if _LINK.search(part.body):
                target = posixpath.join(posixpath.dirname(path), _shown(part).strip())
                yield from (_of_config(name, target_part, None) for target_part in _named(parts, [target]))
    if any(path.endswith(".py") for path in part.paths) and b"pytest_plugins" in part.body:
        yield PytestSettings(plugins=listed_plugins(_text(b"\n".join(part.added_lines()))))


def _of_config(name: str, part: Section, base: bytes | None) -> PytestSettings:
    """Return what the section of a configuration file adds to what the file says without it."""
    before = "" if base is None else _text(base)
    after = _applied(part, before)
    without_patch = read_settings(name, before)
    if after is not None:
        return read_settings(name, after).minus(without_patch)
    return read_settings(name, _shown(part), whole=False).minus(without_patch)


def _applied(part: Section, before: str) -> str | None:
    """Return the file's text with the section's hunks; None where they don't fit."""
    try:
        edits = parse_unified_diff(_text(part.body))
        if part.adds:
            return next(iter(apply(edits, {}).values()), "")
        hunks = [edit for edit in edits if isinstance(edit, Hunks)]
        if len(hunks) != len(edits) or not before:
            return None
        (after,) = apply([Hunks("file", edit.hunks, None, edit.grammar) for edit in hunks], {"file": before}).values()
    except (PatchError, EditError):
        return None
    return after


def _shown(part: Section) -> str:
    """Return the lines of the new file that a section has."""
    lines = part.body.split(b"\n")
    return _text(b"\n".join(line[1:] for line in lines if line[:1] in (b"+", b" ") and not line.startswith(b"+++ ")))


def _named(parts: Sequence[Section], files: Sequence[str] | frozenset[str]) -> Iterator[Section]:
    wanted = {posixpath.normpath(file) for file in files}
    return (part for part in parts if wanted & part.paths)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
