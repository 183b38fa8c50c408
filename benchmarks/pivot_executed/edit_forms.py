"""Other forms of an expert's change of files, and near misses of it, made of the texts before and after.

Law     every form is made of what the change really left (`ReplayedChange`), never of how the expert wrote it. Forms
        need a text on both sides, or a file that is new; which of them are alike, execution says.
"""

import difflib
import json
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.pivot_executed.pairs import Act, editor, miss, misses, shell


class ReplayedChange(NamedTuple):
    """One file that an action changed."""

    path: str
    """Relative to the step's directory."""
    before: str
    """Empty where `is_new`."""
    after: str
    is_new: bool
    shows: bool = False
    """Its command shows something, too, which no other form of the change alone does."""


class _Hunk(NamedTuple):
    first: int
    """The line before which the old lines stand, from 0."""
    old: list[str]
    new: list[str]


def forms_of_change(change: ReplayedChange, workdir: str) -> list[Act]:
    """Return acts that leave the file as the expert did, or nearly so."""
    full = f"{workdir}/{change.path}"
    if change.is_new:
        return _creations(change, full)
    hunks = _hunks(change)
    acts = [*_writes(change, ""), miss("and touch", _heredoc(change.path, change.after) + "\ntouch seen.txt")]
    acts += misses(_writes(change._replace(after=change.after + "checked = True\n"), " other end")[:2])
    if len(hunks) == 1:
        acts += _replacements(change, hunks[0], full, "")
        acts += misses(_replacements(change, _other_text(hunks[0]), full, " other text"))
        acts += _by_line(change.path, hunks[0], "", 0) + misses(_by_line(change.path, hunks[0], " a line on", 1))
    elif hunks:
        acts += misses(_replacements(change, hunks[0], full, " first only")[:3])
    return [*acts, shell("git apply", _patch(change)), miss("git checkout", f"git checkout -- {change.path}")]


def with_rest(forms: Sequence[Act], rest: str) -> list[Act]:
    """Return the forms that are commands, each with what the expert's command does behind the change."""
    return [
        act._replace(means=f"{act.means}, and rest", arguments={"command": f"{act.arguments['command']}\n{rest}"})
        for act in forms
        if act.tool == "bash"
    ]


def _creations(change: ReplayedChange, full: str) -> list[Act]:
    other = change.after.replace("a", "o", 1) if "a" in change.after else change.after + "a = 1\n"
    return [
        *_writes(change, ""),
        editor("create", command="create", path=full, file_text=change.after),
        Act("write_file", "write_file", {"file_path": full, "content": change.after}),
        shell("tee", f"tee {change.path} <<'PADDOCK'\n{change.after}PADDOCK"),
        shell("printf", f"printf '%s' {shlex.quote(change.after)} > {change.path}"),
        *misses([editor("create other text", command="create", path=full, file_text=other)]),
        *misses(_writes(change._replace(after=other), " other text")[:1]),
        *misses(_writes(change._replace(path=f"my_{change.path.replace('/', '_')}"), " other name")[:1]),
        miss("append", f"cat >> {change.path} <<'PADDOCK'\n{change.after}PADDOCK"),
        miss("heredoc twice", f"{_heredoc(change.path, change.after)}\n{_heredoc('second.py', change.after)}"),
        miss("touch", f"touch {change.path}"),
        miss("heredoc and rm", f"{_heredoc(change.path, change.after)}\nrm {change.path}"),
    ]


def _heredoc(path: str, text: str) -> str:
    return f"cat > {path} <<'PADDOCK'\n{text}PADDOCK"


def _writes(change: ReplayedChange, note: str) -> list[Act]:
    """The whole text; only where it ends as a here-document does."""
    if not change.after.endswith("\n") or len(change.after) > 20_000:
        return []
    program = f"open({change.path!r}, 'w').write({json.dumps(change.after, ensure_ascii=False)})"
    return [
        shell(f"heredoc{note}", _heredoc(change.path, change.after)),
        shell(f"heredoc, marker first{note}", f"cat <<'PADDOCK' > {change.path}\n{change.after}PADDOCK"),
        shell(f"python write{note}", f"python3 - <<'PADDOCK'\n{program}\nPADDOCK"),
    ]


def _hunks(change: ReplayedChange) -> list[_Hunk]:
    before, after = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [_Hunk(a, before[a:b], after[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _other_text(hunk: _Hunk) -> _Hunk:
    if not hunk.new:
        return hunk._replace(new=["\n"])
    last = hunk.new[-1].rstrip("\n")
    return hunk._replace(new=[*hunk.new[:-1], f"{last}  or None\n"])


def _replacements(change: ReplayedChange, hunk: _Hunk, full: str, note: str) -> list[Act]:
    """Replace a text that stands once: the hunk with as many lines around it as that takes."""
    lines = change.before.splitlines(keepends=True)
    for around in range(1, 8):
        start, end = max(0, hunk.first - around), hunk.first + len(hunk.old) + around
        old = "".join(lines[start:end])
        if change.before.count(old) == 1:
            break
    else:
        return []
    new = "".join([*lines[start : hunk.first], *hunk.new, *lines[hunk.first + len(hunk.old) : end]])
    program = (
        f"from pathlib import Path\np = Path({change.path!r})\ns = p.read_text()\n"
        f"s = s.replace({old!r}, {new!r})\np.write_text(s)"
    )
    longer = (
        f"with open({change.path!r}) as f:\n    text = f.read()\nold = {old!r}\nnew = {new!r}\nassert old in text\n"
    )
    longer += f"with open({change.path!r}, 'w') as f:\n    f.write(text.replace(old, new, 1))"
    return [
        editor(f"str_replace{note}", command="str_replace", path=full, old_str=old, new_str=new),
        Act(f"edit{note}", "edit", {"filePath": full, "oldString": old, "newString": new}),
        shell(f"python replace{note}", f"python3 - <<'PADDOCK'\n{program}\nPADDOCK"),
        shell(f"python replace, with{note}", f"python3 - <<'PADDOCK'\n{longer}\nPADDOCK"),
    ]


def _by_line(path: str, hunk: _Hunk, note: str, on: int) -> list[Act]:
    """`sed -i` by line numbers, `on` lines further down than the change."""
    first, last = hunk.first + 1 + on, hunk.first + len(hunk.old) + on
    text = "\\\n".join(line.rstrip("\n").replace("\\", "\\\\") for line in hunk.new)
    if not hunk.new:
        return [shell(f"sed -i d{note}", f"sed -i '{first},{last}d' {path}")]
    if hunk.old:
        return [shell(f"sed -i c{note}", f"sed -i {shlex.quote(f'{first},{last}c')}{_script_text(text)} {path}")]
    return [shell(f"sed -i a{note}", f"sed -i '{first - 1}a'{_script_text(text)} {path}")] if first > 1 else []


def _script_text(text: str) -> str:
    """The text of a `c` or `a`, as the rest of the script's word."""
    return shlex.quote(f"\\\n{text}")


def _patch(change: ReplayedChange) -> str:
    lines: Sequence[str] = list(
        difflib.unified_diff(
            change.before.splitlines(keepends=True),
            change.after.splitlines(keepends=True),
            f"a/{change.path}",
            f"b/{change.path}",
        )
    )
    return f"git apply <<'PADDOCK'\n{''.join(lines)}PADDOCK"
