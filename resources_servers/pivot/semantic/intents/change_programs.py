"""Programs that change files, each as the changes that it makes.

Source  the manual pages of bash's `echo` and `printf`, of coreutils' `tee`, `rm`, `mv`, `truncate`, of GNU patch and of
        git-apply; `sed_scripts` and `python_writes` for theirs.
Law     a command is read where all that it does to files is known. What `git rm`, `cp`, `touch` and `rm -r` do depends
        on what is there: they are left out, but for `rm -r` of names with a file's suffix.
None    other commands, options and programs, variables of the environment, patterns of file names, and output that
        goes to a `head`, which may end the command.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_path
from posixpath import basename
from typing import Literal, NamedTuple

from paddock.edits import Delete, Hunks, Move, PatchError, Write, parse_codex_patch, parse_unified_diff
from paddock.edits import Edit as FileEdit
from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, Stage
from paddock.resources_servers.pivot.semantic.intents.python_writes import FunctionOnFile, python_changes
from paddock.resources_servers.pivot.semantic.intents.sed_scripts import (
    FileScript,
    perl_in_place,
    sed_in_place,
)
from paddock.resources_servers.pivot.semantic.intents.text_functions import (
    Append,
    InsertBefore,
    LineScript,
    TextFunction,
)
from paddock.resources_servers.pivot.semantic.intents.views import has_suffix
from paddock.resources_servers.pivot.semantic.paths import resolve, resolve_edits
from paddock.tools import Edit

_NULL = "/dev/null"


@dataclass(frozen=True, slots=True)
class FileFunction:
    """A change of one file's text that is a function of it."""

    path: str
    """Resolved."""
    function: TextFunction


@dataclass(frozen=True, slots=True)
class ScratchUse:
    """A patch to apply, or a program to run, that is in a file."""

    source: str
    """Resolved."""
    means: Literal["python", "patch"]
    directory: str | None
    strip: int = 0

    @property
    def path(self) -> str:
        return self.source

    def changes(self, text: str) -> "list[Change] | None":
        """Return what it does where the file holds `text`."""
        if self.means == "python":
            return _python(text, self.directory)
        return _patch(text, self.directory, self.strip)


Change = FileEdit | FileFunction | ScratchUse


class _ProgramCall(NamedTuple):
    """One program as it runs: what its reader needs."""

    words: list[str]
    """Behind the program's name."""
    stdin: str | None
    source: str | None
    """The file that standard input is, as written."""
    directory: str | None

    def at(self, path: str) -> str:
        return resolve(path, self.directory)


def changes_of(command: BareCommand) -> list[Change] | None:
    """Return what a command does to files, with resolved paths; None: that is not known, or it is nothing."""
    if command.environment or command.first_lines is not None or any(stage.globs for stage in command.stages):
        return None
    if not all(stage.words for stage in command.stages):
        return None
    written = _writes(command)
    if written is not None:
        return written
    if command.output_path not in (None, _NULL):
        return None
    *before, last = command.stages
    stdin, source = command.stdin, None
    if before:
        stdin = _printed(before[0], command.stdin)
        if len(before) != 1 or (stdin is None and not _is_cat_of_one(before[0])):
            return None
        source = before[0].words[1] if stdin is None else None
    read = _READERS.get(_program(last.words[0]))
    return read(_ProgramCall(list(last.words[1:]), stdin, source, command.directory)) if read is not None else None


def _program(word: str) -> str:
    name = basename(word) if word.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/")) else word
    return "python" if re.fullmatch(r"python(3(\.\d+)?)?", name) else name


def _is_cat_of_one(stage: Stage) -> bool:
    return len(stage.words) == 2 and stage.words[0] == "cat" and not stage.words[1].startswith("-")


def _writes(command: BareCommand) -> list[Change] | None:
    """Read a command that puts a text that it holds into files."""
    first, *others = command.stages
    targets: list[tuple[str, bool]] = []
    if first.words[0] == "tee":
        text, others = command.stdin, [first, *others]
    else:
        text = _printed(first, command.stdin)
    for stage in others:
        program, *words = stage.words
        if program == "cat" and words in ([], ["-"]):
            continue
        appends = words[:1] in (["-a"], ["--append"])
        files = words[1:] if appends else words
        if program != "tee" or not files or any(file.startswith("-") for file in files):
            return None
        targets += [(file, appends) for file in files]
    if command.output_path is not None:
        targets.append((command.output_path, command.appends))
    paths = [(resolve(path, command.directory), appends) for path, appends in targets]
    paths = [(path, appends) for path, appends in paths if not path.startswith("/dev/")]
    if text is None or not paths or len({path for path, _ in paths}) != len(paths):
        return None
    return [FileFunction(path, Append(text)) if appends else Write(path, text) for path, appends in paths]


def _printed(stage: Stage, stdin: str | None) -> str | None:
    """Return the text that a command prints; None: it is not known."""
    match stage.words:
        case ("cat",) | ("cat", "-"):
            return stdin
        case ("cat", "/dev/null") | (":",) | ("true",):
            return ""
        case ("echo", *words):
            ending = "" if words[:1] == ["-n"] else "\n"
            words = words[1:] if words[:1] == ["-n"] else words
            text = " ".join(words)
            # Whether a backslash means itself is another matter in each shell.
            return None if "\\" in text or re.match(r"-[neE]+$", (words or [""])[0]) else text + ending
        case ("printf", form, *words) if not form.startswith("-"):
            return _printf(form, words)
    return None


_PRINTF = re.compile(r"%s|%%|\\[nt\\\"']|[^%\\]")
_ESCAPED = {"%%": "%", r"\n": "\n", r"\t": "\t", "\\\\": "\\", r"\"": '"', r"\'": "'"}


def _printf(form: str, words: Sequence[str]) -> str | None:
    parts = _PRINTF.findall(form)
    holes = parts.count("%s")
    if "".join(parts) != form or (words and not holes):
        return None
    rest = list(words)
    out: list[str] = []
    while True:
        for part in parts:
            out.append((rest.pop(0) if rest else "") if part == "%s" else _ESCAPED.get(part, part))
        if not rest:
            return "".join(out)


def _read_sed(run: _ProgramCall) -> list[Change] | None:
    return _scripted(sed_in_place(run.words), run)


def _read_perl(run: _ProgramCall) -> list[Change] | None:
    return _scripted(perl_in_place(run.words), run)


def _scripted(found: FileScript | None, run: _ProgramCall) -> list[Change] | None:
    if found is None or run.stdin is not None or run.source is not None:
        return None
    change = found.change
    if isinstance(change, LineScript):
        return [FileFunction(run.at(path), change) for path in found.paths]
    before = InsertBefore(change.first, change.text)
    paths = [run.at(path) for path in found.paths]
    return [change.edit(path) or FileFunction(path, before) for path in paths]


def _read_python(run: _ProgramCall) -> list[Change] | None:
    match run.words:
        case [] | ["-"] if run.stdin is not None:
            return _python(run.stdin, run.directory)
        case [] | ["-"] if run.source is not None:
            return [ScratchUse(run.at(run.source), "python", run.directory)]
        case ["-c", code] if run.stdin is None and run.source is None:
            return _python(code, run.directory)
        case [script] if script.endswith(".py") and run.stdin is None and run.source is None:
            return [ScratchUse(run.at(script), "python", run.directory)]
    return None


def _python(code: str, directory: str | None) -> list[Change] | None:
    changes = python_changes(code)
    if changes is None:
        return None
    return [
        FileFunction(resolve(change.path, directory), change.function)
        if isinstance(change, FunctionOnFile)
        else with_path(change, path=resolve(change.path, directory))
        for change in changes
    ]


_QUIET_PATCH = frozenset(
    {"-s", "--silent", "--quiet", "-N", "--forward", "--verbose", "-t", "--batch", "-f", "--force"}
)
_QUIET_APPLY = frozenset({"-v", "--verbose", "-q", "--quiet", "--whitespace=nowarn", "-"})


def _read_patch(run: _ProgramCall) -> list[Change] | None:
    return _read_diff(run, strip=None, quiet=_QUIET_PATCH)


def _read_git(run: _ProgramCall) -> list[Change] | None:
    if run.words[:1] != ["apply"]:
        return None
    return _read_diff(run._replace(words=run.words[1:]), strip=1, quiet=_QUIET_APPLY)


def _read_diff(run: _ProgramCall, strip: int | None, quiet: frozenset[str]) -> list[Change] | None:
    is_git = quiet is _QUIET_APPLY
    source = run.source
    rest = [word for word in run.words if word not in quiet]
    while rest:
        word = rest.pop(0)
        level = re.fullmatch(r"(?:-p|--strip=)(\d)", word)
        if word == "-p" and rest and rest[0].isdigit():
            strip = int(rest.pop(0))
        elif level is not None:
            strip = int(level[1])
        elif word == "-i" and rest and not is_git and source is None:
            source = rest.pop(0)
        elif word.startswith("--input=") and not is_git and source is None:
            source = word.partition("=")[2]
        elif is_git and not word.startswith("-") and source is None:
            source = word
        else:
            return None
    if strip is None or (source is None) == (run.stdin is None):
        return None
    if source is not None:
        return [ScratchUse(run.at(source), "patch", run.directory, strip)]
    return _patch(run.stdin or "", run.directory, strip)


_HEADER = re.compile(r"^(?:---|\+\+\+) (.*)$", re.MULTILINE)


def _patch(text: str, directory: str | None, strip: int) -> list[Change] | None:
    """Return the edits of a diff whose names lose so many directories."""
    names = [name for name in _HEADER.findall(text) if not name.startswith(_NULL)]
    prefixed = bool(names) and all(name.startswith(("a/", "b/")) for name in names)
    try:
        edits = parse_unified_diff(text)
    except PatchError:
        return None
    found: list[FileEdit] = []
    for edit in edits:
        parts = edit.path.split("/")
        left = strip - prefixed
        plain = isinstance(edit, Write | Delete) or (isinstance(edit, Hunks) and edit.move_to is None)
        if not plain or not 0 <= left < len(parts) or (edit.path.startswith("/") and left):
            return None
        path = "/".join(parts[left:])
        match edit:
            case Write():
                found.append(Write(path, edit.text, create_only=True))
            case Delete():
                found.append(Delete(path))
            case Hunks():
                found.append(Hunks(path, edit.hunks, grammar="diff"))
            case _:
                return None
    return list(resolve_edits(Edit(tuple(found)), directory)) or None


def _read_apply_patch(run: _ProgramCall) -> list[Change] | None:
    text = run.words[0] if len(run.words) == 1 and run.stdin is None else run.stdin
    if text is None or len(run.words) > 1 or run.source is not None:
        return None
    try:
        return list(resolve_edits(Edit(tuple(parse_codex_patch(text))), run.directory)) or None
    except PatchError:
        return None


_RM_OPTION = re.compile(r"-[fvrR]+|--force|--verbose|--recursive")


def _read_rm(run: _ProgramCall) -> list[Change] | None:
    options = {word for word in run.words if _RM_OPTION.fullmatch(word)}
    paths = _operands(run, frozenset(options))
    recursive = any(option == "--recursive" or set(option) & set("rR") for option in options - {"--force", "--verbose"})
    if not paths or (recursive and not all(map(has_suffix, paths))):
        return None
    return [Delete(run.at(path)) for path in paths]


def _read_unlink(run: _ProgramCall) -> list[Change] | None:
    paths = _operands(run, frozenset())
    return [Delete(run.at(paths[0]))] if paths is not None and len(paths) == 1 else None


def _read_mv(run: _ProgramCall) -> list[Change] | None:
    paths = _operands(run, frozenset({"-f", "-v", "--force", "--verbose", "-T"}))
    if paths is None or len(paths) != 2 or run.at(paths[0]) == run.at(paths[1]):
        return None
    # What is moved to a directory keeps its name: which paths are directories is not known but by a suffix.
    return [Move(run.at(paths[0]), run.at(paths[1]))] if "." in basename(paths[1]).strip(".") else None


def _read_truncate(run: _ProgramCall) -> list[Change] | None:
    words = list(run.words)
    if words[:1] == ["-s0"] or words[:1] == ["--size=0"]:
        words = words[1:]
    elif words[:2] in (["-s", "0"], ["--size", "0"]):
        words = words[2:]
    else:
        return None
    paths = _operands(run._replace(words=words), frozenset())
    return [Write(run.at(path), "") for path in paths] if paths else None


def _operands(run: _ProgramCall, options: frozenset[str]) -> list[str] | None:
    """Return the names of files among the words; None: there is an option that is not one of these."""
    paths = [word for word in run.words if word not in options and word != "--"]
    odd = any(path.startswith("-") or path.endswith(("/", "/.", "..")) or not path for path in paths)
    return None if odd or run.stdin is not None or run.source is not None else paths


_READERS: dict[str, Callable[[_ProgramCall], list[Change] | None]] = {
    "sed": _read_sed,
    "perl": _read_perl,
    "python": _read_python,
    "patch": _read_patch,
    "git": _read_git,
    "apply_patch": _read_apply_patch,
    "applypatch": _read_apply_patch,
    "rm": _read_rm,
    "unlink": _read_unlink,
    "mv": _read_mv,
    "truncate": _read_truncate,
}
