"""Programs that run what stands on their command line: the program inside, or the text that they give to a shell.

Source  the manual pages of the programs named here; `paddock.shell.danger` has the common ones.
Shapes  words as texts, in `inner` and out of it. None: it runs nothing else.
"""

from collections.abc import Sequence
from itertools import pairwise
from posixpath import basename

from paddock.shell.danger import SHELLS, WRAPPERS, Wrapper

FROM_STDIN = "$(input)"
"""Stands for operands that come from standard input."""

_MORE_WRAPPERS: dict[str, Wrapper] = {
    "runuser": Wrapper("ugG", frozenset({"--user", "--group"})),
    "setpriv": Wrapper(long_valued=frozenset({"--reuid", "--regid", "--groups"})),
    "taskset": Wrapper(skips=1),
    "chrt": Wrapper(skips=1),
    "prlimit": Wrapper(),
    "setarch": Wrapper(),
    "numactl": Wrapper("CNmi"),
    "ltrace": Wrapper("elopsu"),
    "valgrind": Wrapper(),
    "fakeroot": Wrapper(),
    "unbuffer": Wrapper(),
    "chronic": Wrapper(),
    "xvfb-run": Wrapper("efnsw"),
    "nsenter": Wrapper("tSG"),
    "systemd-run": Wrapper("pEu"),
    "toybox": Wrapper(),
    "noglob": Wrapper(),
    "nocorrect": Wrapper(),
    "caffeinate": Wrapper("tw"),
}
_RUNNERS: dict[tuple[str, str], Wrapper] = {
    ("uv", "run"): Wrapper("p", frozenset({"--with", "--python", "--extra", "--group", "--project", "--directory"})),
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(),
    ("hatch", "run"): Wrapper(),
    ("conda", "run"): Wrapper("np", frozenset({"--name", "--prefix", "--cwd"})),
    ("mamba", "run"): Wrapper("np", frozenset({"--name", "--prefix", "--cwd"})),
    ("npm", "exec"): Wrapper(),
    ("yarn", "exec"): Wrapper(),
    ("pnpm", "exec"): Wrapper(),
    ("bundle", "exec"): Wrapper(),
}
_TEXT_AFTER: dict[str, tuple[str, ...]] = {
    "env": ("-S", "--split-string"),
    "flock": ("-c", "--command"),
    "script": ("-c", "--command"),
    "su": ("-c", "--command"),
    "runuser": ("-c", "--command"),
    "npm": ("-c", "--call"),
}
_SHELL_VALUED = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_STDIN = frozenset({"-", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"})


def is_shell(program: str) -> bool:
    return program in SHELLS or program in ("at", "batch", "source", ".")


def inner(words: Sequence[str]) -> list[str] | None:
    """The words of the program that `words` runs."""
    name = basename(words[0])
    wrapper = WRAPPERS.get(name) or _MORE_WRAPPERS.get(name)
    if wrapper is not None:
        asks = name == "command" and len(words) > 1 and words[1] in ("-v", "-V")
        return None if asks else _behind(wrapper, words[1:])
    if tuple(words[:2]) == ("uv", "pip"):
        return list(words[1:])
    if len(words) > 2 and (runner := _RUNNERS.get((name, words[1]))) is not None:
        return _behind(runner, words[2:])
    if name.startswith(("python", "pypy")):
        return _module(words[1:])
    return None


def _behind(wrapper: Wrapper, words: Sequence[str]) -> list[str] | None:
    skips = wrapper.skips
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("--"):
            at += 2 if word in wrapper.long_valued else 1
        elif word.startswith("-") and len(word) > 1:
            apart = word[-1] in wrapper.valued and not any(letter in wrapper.valued for letter in word[1:-1])
            at += 2 if apart else 1
        elif "=" in word and word.partition("=")[0].isidentifier():
            at += 1
        elif skips:
            skips -= 1
            at += 1
        else:
            break
    rest = list(words[at + skips :])
    return ([*rest, FROM_STDIN] if wrapper.feeds else rest) or None


def _module(args: Sequence[str]) -> list[str] | None:
    """`python -m module words` is a program of that name."""
    skip = False
    for at, word in enumerate(args):
        if word == "-m":
            return list(args[at + 1 :]) or None
        if skip:
            skip = False
        elif word in ("-W", "-X"):
            skip = True
        elif not word.startswith("-") or word == "-c":
            return None
    return None


def shell_text(words: Sequence[str]) -> str | None:
    """The text that a program gives to a shell from its own command line."""
    name, args = basename(words[0]), words[1:]
    if name == "eval":
        return " ".join(args) or None
    if name == "trap":
        return args[0] if len(args) > 1 and args[0] not in ("-", "--", "-l", "-p") else None
    if name == "watch":
        behind = _behind(WRAPPERS[name], args)
        return " ".join(behind) if behind else None
    if name == "git":
        return _git_text(args)
    if name in SHELLS:
        return _after_c(args)
    options = _TEXT_AFTER.get(name, ())
    for option, value in pairwise(args):
        if option in options:
            return value
    return None


def _git_text(args: Sequence[str]) -> str | None:
    """What an alias, `rebase --exec`, `bisect run` or `submodule foreach` runs."""
    for at, word in enumerate(args):
        if word.startswith("alias.") and "=" in word:
            name, _, text = word.partition("=")
            return text[1:] if text.startswith("!") else f"git {text} {' '.join(_after(args, name[6:]))}"
        if word.startswith("alias.") and at + 1 < len(args):
            text = args[at + 1]
            return text[1:] if text.startswith("!") else f"git {text}"
        if word in ("run", "foreach") and args[at - 1] in ("bisect", "submodule"):
            return " ".join(arg for arg in args[at + 1 :] if arg != "--recursive")
        if word.startswith("--exec="):
            return word.partition("=")[2]
        if word in ("--exec", "-x") and "rebase" in args and at + 1 < len(args):
            return args[at + 1]
    return None


def _after(args: Sequence[str], word: str) -> Sequence[str]:
    return args[args.index(word) + 1 :] if word in args else ()


def _after_c(args: Sequence[str]) -> str | None:
    has_c = False
    skip = False
    for word in args:
        if skip:
            skip = False
        elif word in _SHELL_VALUED:
            skip = True
        elif word.startswith(("-", "+")) and len(word) > 1:
            has_c = has_c or (word[0] == "-" and word[1] != "-" and "c" in word)
        else:
            return word if has_c else None
    return None


def reads_commands(words: Sequence[str]) -> bool:
    """Whether a shell of these words takes its commands from standard input."""
    name, args = basename(words[0]), words[1:]
    if name in ("at", "batch"):
        return True
    if name in ("source", "."):
        return bool(args) and args[0] in _STDIN
    if name not in SHELLS or _after_c(args) is not None:
        return False
    operands = [word for word in args if not word.startswith(("-", "+")) or word == "-"]
    return "-s" in args or not operands or operands[0] in _STDIN
