"""A known fix as mini-swe-agent's policy would make it, with commands alone: look, patch, run the tests, submit.

Law     pure. The patch is what a here-document says. Text-based actions are tried with the expression that finds them:
        what would hide one goes in base64.
Errors  ValueError: the fix is no text, or there is no known form for the expression.
"""

import base64
import re
import shlex
from collections.abc import Callable

from paddock.harness.native import FileFix, TurnWriter, changes
from paddock.types import Fix, JsonObject

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_AROUND = 20
"""Lines before and after a change that are looked at."""
_LONGEST = 60_000
"""Characters of a command: the kernel takes 128 KiB as one word, and base64 makes more of them."""
_FORMS = (
    "```mswea_bash_command\n{}\n```",
    "```bash\n{}\n```",
    "```\n{}\n```",
    "<mswea_bash_command>{}</mswea_bash_command>",
    "<bash>{}</bash>",
    "<command>{}</command>",
)
Act = Callable[[str], bool]
"""Writes a command as a turn; False: this form can't hold it."""


def turns_of(fix: Fix, *, action_regex: str | None) -> list[list[JsonObject]]:
    """Return the turns that make a fix. `action_regex`: finds actions in texts; None: actions are tool calls. Raises
    ValueError."""
    writer = TurnWriter()
    act = _text_actions(writer, action_regex) if action_regex is not None else _call_actions(writer)
    for change in changes(fix):
        act(_look(change))
    for part in _parts(fix.patch.decode()):
        if not act(_apply_line(part)):
            act(_base64_line(part))
    act(fix.test_command)
    act(SUBMIT)
    return writer.turns


def _call_actions(writer: TurnWriter) -> Act:
    def act(line: str) -> bool:
        writer.call("bash", command=line)
        return True

    return act


def _text_actions(writer: TurnWriter, regex: str) -> Act:
    form = next((form for form in _FORMS if _actions_in(regex, form.format("true")) == ["true"]), None)
    if form is None:
        raise ValueError(f"there is no known way to write an action that {regex!r} finds")

    def act(line: str) -> bool:
        answer = f"THOUGHT: This is the next thing to do.\n\n{form.format(line)}"
        if _actions_in(regex, answer) != [line]:
            return False
        writer.say(answer)
        return True

    return act


def _actions_in(regex: str, text: str) -> list[str]:
    return [str(action).strip() for action in re.findall(regex, text, re.DOTALL)]


def _look(change: FileFix) -> str:
    path = shlex.quote(change.path)
    if change.kind == "add":
        return "ls -a"
    if not change.replacements:
        return f"cat -- {path}"
    first = max(1, min(edit.line for edit in change.replacements) - _AROUND)
    last = max(edit.line + edit.old.count("\n") for edit in change.replacements) + _AROUND
    return f"sed -n '{first},{last}p' -- {path}"


def _parts(patch: str) -> list[str]:
    """Return the whole patch, or one per file where it would be too long for a command."""
    if len(patch) <= _LONGEST:
        return [patch]
    return [part for part in re.split(r"^(?=diff --git )", patch, flags=re.MULTILINE) if part.strip()]


def _apply_line(patch: str) -> str:
    end = "EOF"
    while end in patch.split("\n"):
        end += "_"
    return f"git apply - <<'{end}'\n{patch if patch.endswith(chr(10)) else patch + chr(10)}{end}"


def _base64_line(patch: str) -> str:
    return f"base64 -d <<'EOF' | git apply -\n{base64.encodebytes(patch.encode()).decode()}EOF"
