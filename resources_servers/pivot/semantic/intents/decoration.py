"""What around a command changes only how its output looks, or nothing: words in front of it, variables, messages.

Law     what is taken away here changes neither what the command does nor what it says; its output may come in other
        colours, through another pager, or with a line of its own words before it.
Errors  `NotBareError` where something decides what runs, or may cut it.
"""

import posixpath
import re
from collections.abc import Sequence

from paddock.shell import Redirect, Simple, Word
from paddock.shell.syntax import Active, Lit, Param


class NotBareError(Exception):
    """Something in the script decides what runs, or cannot be known from its text."""


MIN_TIMEOUT_S = 5.0
"""A shorter `timeout` may end what another would let finish."""
MAX_MESSAGE_CHARS = 200
PAGERS = frozenset({("cat",), ("cat", "-"), ("less",), ("less", "-R"), ("less", "-FX"), ("less", "-FRX"), ("more",)})
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)")
_SECONDS_OF = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LINE_COUNT = re.compile(r"-n?([0-9]{1,9})|--lines=([0-9]{1,9})")
_NUMBER = re.compile(r"[0-9]{1,9}")
_VALUE = re.compile(r"[\w.,:@+-]*")
_LOOKS = frozenset({
    "TERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLORTERM", "COLUMNS",
    "LINES", "LC_ALL", "LC_CTYPE", "LANG", "LANGUAGE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING", "PYTHONUTF8", "TQDM_DISABLE", "PIP_NO_COLOR", "PIP_DISABLE_PIP_VERSION_CHECK",
    "PIP_PROGRESS_BAR",
})  # fmt: skip
"""Variables that change only how output looks, or when it comes."""
_PAGER_VARIABLES = frozenset({"PAGER", "GIT_PAGER", "MANPAGER"})
_GIT_LOOKS = frozenset({"core.pager=cat", "core.pager=", "color.ui=never", "color.ui=false", "pager.log=false"})
_STATUS = frozenset({"?", "PIPESTATUS[0]", "PIPESTATUS[@]"})
"""Parameters that say only how a command ended."""
_MARKER = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)+")
"""A word that a harness may wait for in what is printed, as `COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SHELL_LOOKS = re.compile(r"-[lexiu]+|--login|--norc|--noprofile")
_SHELL_SCRIPT = re.compile(r"-[lexiu]*c[lexiu]*")
_SET_OPTION = re.compile(r"[-+][euxo]+")
_SET_NAMES = frozenset({"pipefail", "errexit", "nounset", "xtrace"})


def only_looks(name: str, value: str) -> bool:
    """Say whether a variable with this value changes only how output looks."""
    if name in _PAGER_VARIABLES:
        return value == "" or tuple(value.split()) in PAGERS
    return name in _LOOKS and _VALUE.fullmatch(value) is not None


def hides_nothing(redirect: Redirect) -> bool:
    """Say whether a redirection only moves or drops what a command prints as errors."""
    target = redirect.target.text
    return redirect.fd == 2 and ((redirect.op == ">&" and target == "1") or target == "/dev/null")


def is_message(node: Simple) -> bool:
    """Say whether a command prints words of the script and how the last one ended, or where it is, or does nothing."""
    texts = [_message_text(word) for word in node.words]
    if node.assigns or not texts or None in texts or not all(map(_goes_to_errors, node.redirects)):
        return False
    if texts[0] not in ("echo", "printf"):
        return texts in (["true"], [":"], ["pwd"])
    text = " ".join(text or "" for text in texts)
    return not (_MARKER.search(text) or len(text) > MAX_MESSAGE_CHARS or texts[1:2] == ["-v"])


def _goes_to_errors(redirect: Redirect) -> bool:
    return hides_nothing(redirect) or (redirect.fd == 1 and redirect.op == ">&" and redirect.target.text == "2")


def _message_text(word: Word) -> str | None:
    """Return the literal text of a word; None: it expands to something other than a status."""
    if not all(isinstance(part, Lit) or (isinstance(part, Param) and part.text in _STATUS) for part in word.parts):
        return None
    return "".join(part.text for part in word.parts if isinstance(part, Lit))


def sets_looks(words: Sequence[str]) -> bool:
    """Say whether `set` only changes what ends a script, or what it says of itself."""
    options = words[1:]
    return (
        words[0] == "set"
        and all(_SET_OPTION.fullmatch(word) or word in _SET_NAMES for word in options)
        and options != []
    )


def script_of(words: Sequence[str]) -> str | None:
    """Return the script that a shell is given with `-c`; None: it is no shell, or is given none."""
    if len(words) < 3 or posixpath.basename(words[0]) not in _SHELLS or not _SHELL_SCRIPT.fullmatch(words[-2]):
        return None
    return words[-1] if all(map(_SHELL_LOOKS.fullmatch, words[1:-2])) else None


def is_bare_shell(words: Sequence[str]) -> bool:
    """Say whether a shell is given its script as its input."""
    rest = words[1:]
    return posixpath.basename(words[0]) in _SHELLS and (list(rest) == ["-s"] or all(map(_SHELL_LOOKS.fullmatch, rest)))


def is_assignment(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def text_of(word: Word) -> tuple[str, bool]:
    """Return a word's text, and whether the shell may expand it to names of files."""
    if word.text is not None:
        return word.text, False
    if not all(isinstance(part, Lit | Active) for part in word.parts):
        raise NotBareError
    return "".join(part.text for part in word.parts if isinstance(part, Lit | Active)), bool(word.parts)


def wrapper_words(words: Sequence[str]) -> int | None:
    """Count the leading words of a program that only runs the words behind it; None: the first word is none."""
    match words:
        case ["time" | "/usr/bin/time", "-p" | "-v", _, *_]:
            return 2
        case ["time" | "command" | "unbuffer" | "/usr/bin/time", rest, *_] if not rest.startswith("-"):
            return 1
        case ["env", rest, *_] if not rest.startswith("-"):
            return 1 + next((i for i, word in enumerate(words[1:]) if not is_assignment(word)), 0)
        case ["nice", "-n", _, _, *_]:
            return 3
        case ["nice", rest, *_] if not rest.startswith("-"):
            return 1
        case ["stdbuf", option, _, *_] if option.startswith("-"):
            return 1 + next((i for i, word in enumerate(words[1:]) if not word.startswith("-")), 0)
        case ["timeout", *rest]:
            return _timeout_words(rest)
        case _:
            return None


def _timeout_words(rest: Sequence[str]) -> int | None:
    skipped = 0
    while skipped < len(rest) and rest[skipped].startswith("-"):
        option = rest[skipped]
        skipped += 2 if option in ("-k", "-s", "--signal", "--kill-after") else 1
    if skipped + 1 >= len(rest) or (found := _DURATION.fullmatch(rest[skipped])) is None:
        return None
    if float(found[1]) * _SECONDS_OF[found[2]] < MIN_TIMEOUT_S:
        raise NotBareError
    return skipped + 2


def git_looks(words: Sequence[str]) -> int:
    """Count the words behind `git` that only choose its pager and colours."""
    count = 0
    while words[:1] == ["git"] and count + 1 < len(words):
        if words[count + 1] in ("--no-pager", "-P"):
            count += 1
        elif words[count + 1] == "-c" and count + 2 < len(words) and words[count + 2] in _GIT_LOOKS:
            count += 2
        else:
            break
    return count


def shown_lines(words: Sequence[str]) -> int | None:
    """Return how many lines `head` or `tail` lets through; None: it is another program, or does more than that."""
    match words:
        case ("head" | "tail",):
            return 10
        case ("head" | "tail", "-n" | "--lines", count) if _NUMBER.fullmatch(count):
            return int(count)
        case ("head" | "tail", option) if (found := _LINE_COUNT.fullmatch(option)) is not None:
            return int(found[1] or found[2])
        case _:
            return None
