"""Where a row's tools run: the directory in which its commands and relative paths begin.

Order    the row's key `cwd` (of the task, else of its `metadata`), the history, the option `cwd`.
History  the newest evidence in the last `MAX_ITEMS` items: what a tool or the harness notes (OpenHands, SWE-agent,
         Codex), what a `pwd` printed; then the first prompts; then the one `workdir` that all calls name. A `cd` since
         then moves a shell that lasts, and none that ends with its call, as the tool's do or as the prompts say of all.
         Of a tool of which neither is known a `cd` elsewhere leaves the place unknown.
Errors   a `cwd` of the row that is no absolute path is RowError naming the key. A history never raises.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import islice
from typing import Any, NamedTuple

from paddock.errors import RowError
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.outputs import plain_output
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import BudgetError, Simple, StepBudget, limited, nodes, parse, take
from paddock.shell.syntax import AndOr, Block, Node, Pipeline
from paddock.tools import Action, Edit, ListFolder, ReadFile, Search, ShellCommand, normalise
from paddock.tools.commands import SESSION_SHELLS
from paddock.tools.names import fold
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, tool_call

MAX_ITEMS = 400
"""Newest items of a history that are read."""
MAX_PROMPTS = 4
"""First prompts of a history that are read, its instructions included."""
MAX_PROMPT_CHARS = 40_000
MAX_NOTE_CHARS = 1000
"""Characters at the end of a tool's result or a message where its note of the directory stands."""
_ITEMS_PER_STEP, _MOVES_PER_STEP = 30, 4

_SHELL_PER_CALL = frozenset({"shell", "shell_command", "exec_command", "local_shell", "container.exec"})
"""Shell tools with a shell of its own for each call."""
_IN_PATH = r"[^\s`'\"<>()\[\],;]"
_PATH = rf"(/{_IN_PATH}*)"
_NOTE = re.compile(
    r"\[Current working directory: (/[^\n\]]*)\]|^\(Current directory: (/[^\n)]*)\)$|<cwd>\s*(/[^<\n]*?)\s*</cwd>",
    re.MULTILINE,
)
_STATEMENTS = tuple(
    (words, re.compile(pattern))
    for words, pattern in (
        ("<cwd>", rf"<cwd>\s*{_PATH}\s*</cwd>"),
        (" directory", rf"(?i)\b(?:working|current) directory(?: is)?:?\s+[`'\"]?{_PATH}"),
        (
            " (this is the working directory",
            # From the beginning of a word on: from each of many slashes it would take quadratic time.
            rf"(?<!{_IN_PATH})(?:(?!/){_IN_PATH})*{_PATH} \(this is the working directory",
        ),
        ("ing in the directory", rf"(?i)\bcurrently working in the directory:?\s+[`'\"]?{_PATH}"),
        (
            "uploaded a ",
            r"(?i)\buploaded a (?:\w{1,40} ){0,9}?repository(?: in| at)?(?: the)?(?: directory| folder)?:?\s+[`'\"]?"
            + _PATH,
        ),
        ("<uploaded_files>", rf"<uploaded_files>\s*{_PATH}\s*</uploaded_files>"),
    )
)
"""How prompts say where the work is, the plainest first, each behind words that a prompt without it mostly lacks: a
pattern takes a hundred times as long to find nothing."""
_NEW_SHELLS = re.compile(
    r"(?i)\bdirectory (?:or environment variable )?changes are not persistent\b"
    r"|\b(?:every|each) (?:action|command) (?:is executed|runs) in a new (?:sub)?shell\b"
)
"""How prompts say that no `cd` lasts."""
_MOVES = re.compile(r"\b(?:cd|pushd|popd|chdir)\b")
_PRINTS_PLACE = re.compile(r"(?:^|&&|;|\n)\s*pwd\s*\Z")
_CD_FAILED = re.compile(r"\bcd: ")


class _Move(NamedTuple):
    """The `cd`s of one command, in order."""

    targets: tuple[str, ...] | None
    """None: it may have gone anywhere."""
    lasts: bool
    """Whether the tool's shell is known to last."""


def row_cwd(row_task: Mapping[str, Any]) -> str | None:
    """Return the row's own `cwd`; None: it has none. RowError where it is no absolute path."""
    metadata = row_task.get("metadata")
    for key, holder in (("cwd", row_task), ("metadata.cwd", metadata)):
        value = holder.get("cwd") if isinstance(holder, Mapping) else None
        if value is None:
            continue
        if not isinstance(value, str) or not value.startswith("/"):
            raise RowError(
                f"{key}: {value!r:.100} is no absolute path; it names the directory in which the row's tools run",
                kind="cwd_invalid",
                stage="seed",
            )
        return resolve(value, None)
    return None


def depends_on_place(action: Action | None) -> bool:
    """Say whether what an action does depends on where it runs."""
    match action:
        case ShellCommand():
            return True
        case Edit():
            return any(not edit.path.startswith("/") for edit in action.edits)
        case ReadFile() | Search() | ListFolder():
            return not (action.path or "").startswith("/")
        case _:
            return False


class Places:
    """Where a row's tools run: at the step that is judged, and at the steps of its history."""

    def __init__(
        self,
        params: JsonObject,
        options: SemanticOptions,
        row_task: Mapping[str, Any],
        budget: StepBudget | None = None,
    ) -> None:
        """`budget` is of all that is read here, None: unbounded; where it ends a `cd` may lead anywhere."""
        self._own = row_cwd(row_task)
        self._option = options.cwd
        self._trail = _Trail(params, budget)
        self._known: dict[int, str | None] = {}

    @cached_property
    def last(self) -> str | None:
        """Return the directory at the step that is judged; None: it is not known."""
        return self._own if self._own is not None else self._trail.place(self._option)

    def before(self, index: int) -> str | None:
        """Return the directory before the history's item of this index, counted among those that are objects."""
        if not self._trail.moves_after(index):
            return self.last
        if index not in self._known:
            self._known[index] = self._trail.place(self._start, before=index)
        return self._known[index]

    @cached_property
    def _start(self) -> str | None:
        """Return where tools start if the history does not show it: the row's place, if all moves lead there."""
        return self._own if self._own is not None and self._trail.place(self._own) == self._own else self._option


class _Evidence(NamedTuple):
    """What one item says of the place; all None: nothing."""

    note: str | None = None
    move: _Move | None = None
    workdir: str | None = None


_NOTHING = _Evidence()


class _Trail:
    """What a history says of the place, each item read once."""

    def __init__(self, params: JsonObject, budget: StepBudget | None) -> None:
        self._params = params
        self._budget = budget
        self._outputs: dict[str, str] = {}
        self._read: dict[int, _Evidence] = {}

    @cached_property
    def _items(self) -> list[JsonObject]:
        found = self._params.get("input") if isinstance(self._params, dict) else None
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    @cached_property
    def _prompts(self) -> list[str]:
        return list(islice(_prompts(self._params, self._items), MAX_PROMPTS))

    @cached_property
    def _new_shells(self) -> bool:
        """Say whether a prompt says that no `cd` lasts."""
        return any(_NEW_SHELLS.search(prompt[:MAX_PROMPT_CHARS]) for prompt in self._prompts)

    @cached_property
    def _last_move(self) -> int:
        """Return the index of the newest item that may have moved the shell; -1: none."""
        newest = self._newest(len(self._items))
        return next((at for at in newest if self._evidence(at).move is not None), -1)

    def place(self, otherwise: str | None, before: int | None = None) -> str | None:
        """Return the place before an item, or after the last; `otherwise` is where tools start if nothing shows it."""
        end = len(self._items) if before is None else before
        start: str | None = None
        moves: list[_Move] = []
        workdirs: set[str] = set()
        take(len(self._newest(end)) // _ITEMS_PER_STEP)
        for index in self._newest(end):
            evidence = self._evidence(index)
            if evidence.note is not None:
                start = evidence.note
                break
            if evidence.move is not None:
                moves.append(evidence.move)
            if evidence.workdir is not None:
                workdirs.add(evidence.workdir)
        if start is None:
            start = _stated(self._prompts)
        if start is None and len(workdirs) == 1:
            (start,) = workdirs
        take(len(moves) // _MOVES_PER_STEP)
        return reduce(_after, reversed(moves), start if start is not None else otherwise)

    def moves_after(self, index: int) -> bool:
        """Say whether the shell may have gone elsewhere since the item of this index."""
        return self._last_move >= index

    def _newest(self, end: int) -> range:
        """Return the indices of the items before `end` that are read, from the newest on."""
        return range(end - 1, max(0, end - MAX_ITEMS) - 1, -1)

    def _evidence(self, index: int) -> _Evidence:
        # An item's evidence needs the outputs after it: whoever asks for it has read those, from the last one on.
        if index not in self._read:
            self._read[index] = self._evidence_in(self._items[index])
        return self._read[index]

    def _evidence_in(self, item: JsonObject) -> _Evidence:
        match item_type(item):
            case "function_call_output" | "custom_tool_call_output":
                text = content_text(item.get("output"))
                if isinstance(call_id := item.get("call_id"), str):
                    self._outputs[call_id] = text
                return _noted(text)
            case "message" if item.get("role") != "assistant":
                return _noted(content_text(item.get("content")))
            case "function_call" | "custom_tool_call":
                return self._evidence_of_call(item)
            case _:
                return _NOTHING

    def _targets(self, command: str) -> tuple[str, ...] | None:
        if self._budget is None:
            return _targets(command)
        try:
            with limited(self._budget):
                return _targets(command)
        except BudgetError:
            return None

    def _evidence_of_call(self, item: JsonObject) -> _Evidence:
        """Return the place that a call's `pwd` printed, or where the call goes."""
        call = tool_call(item)
        text = call.arguments
        if not ("pwd" in text or "workdir" in text or "cwd" in text or _moves(text)):
            return _NOTHING
        action = normalise(call.name, text)
        if not isinstance(action, ShellCommand):
            return _NOTHING
        if action.workdir:
            return _Evidence(workdir=resolve(action.workdir, None) if action.workdir.startswith("/") else None)
        name, output = fold(call.name), self._outputs.get(call.call_id or "", "")
        lasts, goes = name in SESSION_SHELLS, _moves(action.command)
        if _PRINTS_PLACE.search(action.command) and (lasts or not goes):
            printed = (plain_output(output) or "").strip().rpartition("\n")[2]
            if printed.startswith("/"):
                return _Evidence(note=resolve(printed, None))
        ends = name in _SHELL_PER_CALL or (not lasts and self._new_shells)
        if goes and not ends and not _CD_FAILED.search(output):
            return _Evidence(move=_Move(self._targets(action.command), lasts))
        return _NOTHING


def _moves(text: str) -> bool:
    """Say whether a text has a word that changes the directory; the pattern takes ten times as long to find none."""
    maybe = "cd" in text or "pushd" in text or "popd" in text or "chdir" in text
    return maybe and _MOVES.search(text) is not None


def _prompts(params: JsonObject, items: Sequence[JsonObject]) -> Iterator[str]:
    if isinstance(params, dict):
        yield from (text for text in (params.get("instructions"), params.get("input")) if isinstance(text, str))
    for item in items:
        if item.get("role") != "assistant" and item_type(item) == "message":
            yield content_text(item.get("content"))


def _noted(text: str) -> _Evidence:
    """Return the last place that a text notes at its end."""
    end = text[-MAX_NOTE_CHARS:]
    if "irectory: /" not in end and "<cwd>" not in end:
        return _NOTHING
    found = ["".join(groups).strip() for groups in _NOTE.findall(end)]
    return _Evidence(note=resolve(found[-1], None)) if found else _NOTHING


def _stated(prompts: Sequence[str]) -> str | None:
    texts = [(prompt[:MAX_PROMPT_CHARS], prompt[:MAX_PROMPT_CHARS].lower()) for prompt in prompts]
    for words, pattern in _STATEMENTS:
        for text, lowered in texts:
            found = pattern.search(text) if words in lowered else None
            if found is not None:
                return resolve(found[1].rstrip(".:") or "/", None)
    return None


def _after(place: str | None, move: _Move) -> str | None:
    if move.targets is None:
        return None
    there = reduce(_step, move.targets, place)
    return there if move.lasts or there == place else None


def _step(place: str | None, target: str) -> str | None:
    return resolve(target, place) if place is not None or target.startswith("/") else None


def _targets(command: str) -> tuple[str, ...] | None:
    """Return where the `cd`s of a script lead, in order; None: it may end anywhere."""
    script = parse(command)
    if script.error:
        return None
    targets: list[str] = []
    for node in (node for statement in script.statements for node in _conjuncts(statement.node)):
        if isinstance(node, Pipeline) or (isinstance(node, Block) and node.kind == "("):
            continue  # its parts run in shells of their own
        if not isinstance(node, Simple):
            if any(isinstance(inner, Simple) and _goes(inner) for inner in nodes(node)):
                return None
            continue
        if not _goes(node):
            continue
        words = [word.text for word in node.words]
        target = words[1] if len(words) == 2 and words[0] == "cd" else None
        if not target or target[0] in "-~":
            return None
        targets.append(target)
    return tuple(targets)


def _conjuncts(node: Node) -> Iterator[Node]:
    """Yield the commands of `a && b && c`, each of which runs where all goes well."""
    if isinstance(node, AndOr) and all(operator == "&&" for operator, _ in node.rest):
        yield from _conjuncts(node.first)
        for _, follower in node.rest:
            yield from _conjuncts(follower)
    else:
        yield node


def _goes(node: Simple) -> bool:
    return bool(node.words) and node.words[0].text in ("cd", "pushd", "popd", "chdir", "eval", None)
