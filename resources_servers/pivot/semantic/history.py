"""What the row's history shows of a file's text: tool results that print it, and the edits made since.

Source  `responses_create_params.input`: calls and their outputs, joined by `call_id`. It is read only when an edit
        needs a text, and of it only calls whose arguments name the file.
Shows   a view or read of the file, by a tool or by a command that prints nothing else; the whole text by a tool that
        writes it.
Where   a relative path is one below the directory in which its step ran (`place`).
Since   a later edit is made on each known text; one on which it cannot be made is forgotten. So it is with a command
        that changes the file in a way that is known, and did not fail; another that names it and may write forgets all.
        So does one that formats files, whichever it names.
Errors  none: what cannot be read shows nothing.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from posixpath import basename
from typing import Any, NamedTuple

from paddock.edits import Edit as FileEdit
from paddock.edits import EditError, KnownText, Write, apply_known, count_changes, parse_numbered
from paddock.resources_servers.pivot.semantic.outputs import is_cut, plain_output
from paddock.resources_servers.pivot.semantic.paths import resolve, resolve_edits
from paddock.resources_servers.pivot.semantic.place import Places, depends_on_place
from paddock.shell import BudgetError, StepBudget, effects, limited, take
from paddock.tools import Action, Edit, InvalidCall, ReadFile, ShellCommand, normalise
from paddock.types import JsonObject
from paddock.types.responses import CALLS, ToolCall, content_text, item_type, tool_call

_FORMATTERS = (
    "autoflake", "autopep8", "black", "clang-format", "dos2unix", "eslint", "cargo fmt", "go fmt", "gofmt", "isort",
    "pre-commit", "prettier", "pyupgrade", "ruff", "rustfmt", "yapf",
)  # fmt: skip
_FORMATTER = re.compile(
    rf"(?:^|[;&|(] *|\bpython3? -m )(?:{'|'.join(_FORMATTERS)})\b(?![^;&|(\n]{{0,200}} --(?:check|diff)\b)",
    re.MULTILINE,
)
_STEPS_PER_COMMAND = 15
_STEPS_PER_CHANGE = 3
_CHARS_PER_STEP = 400
_CHANGED_CHARS_PER_STEP = 4000


class PrintedFile(NamedTuple):
    """One stretch of a file's lines, which is all that a command prints."""

    path: str
    """Resolved."""
    first_line: int
    last_line: int | None
    """None: all to the end is shown."""
    numbered: bool
    """True: each line has its number in front."""


FileChanger = Callable[[ShellCommand, str, str | None, str, Sequence[KnownText]], list[KnownText] | None]
"""Makes the changes of a command, with what it printed and where it ran, on the texts known of the file of a path.

None: it may change it otherwise, or failed.
"""
PrintReader = Callable[[ShellCommand, str | None], PrintedFile | None]
"""Reads a command that runs in a directory, if that is known; None: it prints no file, or more than that."""


class _PastStep(NamedTuple):
    action: Action
    output: str
    cwd: str | None
    """Where it ran; None: that is not known, or does not matter."""
    printed: PrintedFile | None
    """What it shows, if it is a command that prints a file."""
    edits: Sequence[FileEdit]
    """What it changes, with resolved paths."""


class FileHistory:
    """The calls of one row before the step that is judged."""

    def __init__(
        self,
        params: JsonObject,
        schema: Callable[[str], JsonObject | None],
        printed_file: PrintReader,
        changed_texts: FileChanger,
        places: Places,
        budget: StepBudget,
    ) -> None:
        """Hold the history of a row.

        `schema` gives the JSON schema of the row's tool of a name, as the row's other calls are read with. `budget` is
        of all that is read here; a file at which it ends is not known.
        """
        self._schema = schema
        self._places = places
        self._printed_file = printed_file
        self._changed_texts = changed_texts
        self._budget = budget
        self._params = params
        self._outputs: dict[str, str] | None = None
        self._texts: dict[str, list[KnownText]] = {}
        self._steps: dict[int, _PastStep | None] = {}

    @cached_property
    def _items(self) -> list[JsonObject]:
        items = self._params.get("input") if isinstance(self._params, dict) else None
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

    @cached_property
    def _formatting(self) -> frozenset[int]:
        """Which items are calls that may format files."""
        calls = [(index, tool_call(item)) for index, item in enumerate(self._items) if item_type(item) in CALLS]
        named = (
            (index, call.arguments) for index, call in calls if any(name in call.arguments for name in _FORMATTERS)
        )
        texts = ((index, arguments.replace('"', "\n").replace("\\n", "\n")) for index, arguments in named)
        return frozenset(index for index, text in texts if _FORMATTER.search(text) is not None)

    def texts(self, path: str) -> list[KnownText]:
        """Return the texts that the history shows of the file at this resolved path, newest first."""
        if path not in self._texts:
            try:
                with limited(self._budget):
                    self._texts[path] = self._read(path)
            except BudgetError:
                self._texts[path] = []
        return self._texts[path]

    def _read(self, path: str) -> list[KnownText]:
        texts: list[KnownText] = []
        for step in self._calls_naming(basename(path)):
            texts = self._after(step, path, texts)
        return texts[::-1]

    def _calls_naming(self, name: str) -> Iterator[_PastStep]:
        escaped = json.dumps(name)[1:-1]
        for index, item in enumerate(self._items):
            if item_type(item) not in CALLS:
                continue
            call = tool_call(item)
            if name not in call.arguments and escaped not in call.arguments and index not in self._formatting:
                continue
            take(1)
            if index not in self._steps:
                self._steps[index] = self._step(index, call)
            step = self._steps[index]
            if step is not None:
                yield step

    def _step(self, index: int, call: ToolCall) -> _PastStep | None:
        """Read a call; None: it asks for nothing."""
        take(1 + len(call.arguments) // _CHARS_PER_STEP)
        action = normalise(call.name, call.arguments, schema=self._schema(call.name))
        if isinstance(action, InvalidCall):
            return None
        cwd = self._places.before(index) if depends_on_place(action) else None
        printed: PrintedFile | None = None
        if isinstance(action, ShellCommand):
            take(_STEPS_PER_COMMAND)
            printed = self._printed_file(action, cwd)
        edits = resolve_edits(action, cwd) if isinstance(action, Edit) else []
        take(_STEPS_PER_CHANGE * count_changes(edits))
        return _PastStep(action, self._output_of(call.call_id), cwd, printed, edits)

    def _output_of(self, call_id: str | None) -> str:
        if self._outputs is None:
            self._outputs = dict(_outputs(self._items))
        return self._outputs.get(call_id or "", "")

    def _after(self, step: _PastStep, path: str, texts: list[KnownText]) -> list[KnownText]:
        """Return the known texts of a file after a step, newest last."""
        action, output, cwd, printed, edits = step
        match action:
            case ReadFile() if resolve(action.path, cwd) == path:
                return [*texts, *_texts_in(output, action.first_line, action.last_line if action.whole else 0)]
            case ShellCommand():
                if printed is not None and printed.path == path:
                    shown = _texts_in(output, printed.first_line, printed.last_line, numbered=printed.numbered)
                    return [*texts, *shown]
                done = effects(action.command, cwd=cwd)
                if not done.writes and not done.destructive and done.reads_only:
                    return texts
                if _FORMATTER.search(action.command) is not None:
                    return []
                changed = self._changed_texts(action, output, cwd, path, texts)
                if changed is not None:
                    return changed
                return [] if done.writes or done.destructive else texts
            case Edit():
                own = [edit for edit in edits if edit.path == path]
                return _after_edit(own, output, path, texts) if own else texts
            case _:
                return texts


def _outputs(items: list[JsonObject]) -> Iterator[tuple[str, str]]:
    for item in items:
        call_id: Any = item.get("call_id")
        if item_type(item) in ("function_call_output", "custom_tool_call_output") and isinstance(call_id, str):
            yield call_id, content_text(item.get("output"))


def _texts_in(output: str, first_line: int, last_line: int | None, *, numbered: bool | None = None) -> list[KnownText]:
    """Return the text that an output shows; `numbered` None: it has line numbers where they can be read.

    `last_line`: the last one that was asked for; None: all to the end were, 0: that is not known.
    """
    take(len(output) // _CHARS_PER_STEP)
    if not output:
        return []
    complete = first_line == 1 and last_line is None
    if numbered is not False:
        view = parse_numbered(output)
        if view is not None:
            whole = complete and view.first_line == 1 and not is_cut(output)
            whole = whole or _ends_early(view, output, last_line)
            return [KnownText.whole(view.text.rstrip("\n") + "\n") if whole else view]
    if numbered:
        return []
    text = plain_output(output)
    if text is None:
        return []
    # Tools trim the end of what they show, so whether a last newline was there is not known; text files have it.
    return [KnownText(first_line, text.rstrip("\n") + "\n", complete)]


def _ends_early(view: KnownText, output: str, last_line: int | None) -> bool:
    """Say whether numbered lines, from the first on, are fewer than were asked for: then they are the whole file."""
    text = plain_output(output)
    if text is None or not last_line or view.first_line != 1:
        return False
    count = view.text.count("\n")
    return count < last_line and count == text.rstrip("\n").count("\n") + 1


_FAILED_EDITS = ("no_match", "ambiguous", "file_exists", "no_change", "line_range")
"""Why an edit of a text that is known whole fails: then the tool failed too, and the file is as it was."""


def _after_edit(edits: list[FileEdit], output: str, path: str, texts: list[KnownText]) -> list[KnownText]:
    writes = [index for index, edit in enumerate(edits) if isinstance(edit, Write)]
    last = edits[writes[-1]] if writes else None
    if isinstance(last, Write):
        texts, edits = [KnownText.whole(last.text)], edits[writes[-1] + 1 :]
    after: list[KnownText] = []
    for text in texts:
        take(1 + len(text.text) // _CHANGED_CHARS_PER_STEP)
        try:
            files = apply_known(edits, {path: text})
        except EditError as error:
            if text.complete and error.kind in _FAILED_EDITS:
                after.append(text)
            continue
        if path in files:
            after.append(files[path])
    view = parse_numbered(output)
    return [*after, view] if view is not None else after
