"""What one command may do, by its program and its words.

Law     `judge` knows the program behind paths, quotes and wrappers such as `sudo` and `xargs`, and looks into the
        text that a shell or Python is handed on its command line. A word that expands is any word.
Shapes  words are strings, or None for a word that expands; the answer is a `Harm`, or text for a shell to be judged.
"""

import re
from collections.abc import Callable, Sequence
from posixpath import basename

from paddock.shell.danger import (
    DESTROYS,
    GIT_READS,
    HARMLESS_FILES,
    MORE,
    PYTHONS,
    READS,
    READS_ONLY,
    SCRATCH,
    SHELLS,
    SYSTEM,
    WRAPPERS,
    WRITES,
    Harm,
    HarmContext,
    ScriptText,
    Words,
    Wrapper,
)
from paddock.shell.paths import START, join, within
from paddock.shell.python_code import python_harm

_MAX_WRAPPERS = 16
_MAX_EXECS = 8
_MAX_FINDS = 2
"""How many commands of one `find` are looked into, and how many of them inside each other."""
_SPLITTERS = {"env": ("-S", "--split-string"), "flock": ("-c", "--command"), "script": ("-c", "--command")}
"""Programs that run the text after an option."""


def judge(words: Words, context: HarmContext) -> Harm | ScriptText:
    """What `words` may do when run in `context`."""
    for _ in range(_MAX_WRAPPERS):
        if not words or words[0] is None:
            return Harm("unknown", "a program that is not named") if words else READS_ONLY
        name = basename(words[0])
        if name in _SPLITTERS and (text := _text_after(words[1:], _SPLITTERS[name])) is not None:
            return ScriptText(text)
        wrapper = WRAPPERS.get(name)
        if wrapper is None:
            return _program(name, words[1:], context)
        inner = _inside(wrapper, words[1:])
        if not inner:
            return READS_ONLY if name in ("env", "command", "exec") else Harm("unknown", f"{name} of nothing")
        if name == "command" and words[1] in ("-v", "-V"):
            return READS_ONLY
        words = inner
    return Harm("unknown", "too many wrappers")


def is_system(path: str, context: HarmContext) -> bool:
    """Whether an absolute path lies where no task may write; a folder there that the script started in is its own."""
    if context.start not in (START, "/", *SYSTEM) and within(path, context.start):
        return False
    if path in HARMLESS_FILES or path.startswith("/dev/fd/") or any(within(path, folder) for folder in SCRATCH):
        return False
    return path == "/" or any(within(path, folder) for folder in SYSTEM)


def _inside(wrapper: Wrapper, words: Words) -> Words:
    """The program that a wrapper runs, and its words."""
    rest = list(words)
    skips = wrapper.skips
    while rest:
        word = rest[0]
        if word is None:
            break
        if word == "--":
            rest.pop(0)
            break
        if word.startswith("--"):
            rest = rest[2:] if word in wrapper.long_valued else rest[1:]
        elif word.startswith("-") and len(word) > 1:
            value_apart = word[-1] in wrapper.valued and not any(letter in wrapper.valued for letter in word[1:-1])
            rest = rest[2:] if value_apart else rest[1:]
        elif "=" in word and word.partition("=")[0].isidentifier():
            rest.pop(0)
        elif skips:
            skips -= 1
            rest.pop(0)
        else:
            break
    rest = rest[skips:] if rest and rest[0] is None else rest
    return [*rest, None] if rest and wrapper.feeds else rest


def _program(name: str, args: Words, context: HarmContext) -> Harm | ScriptText:
    special = _SPECIAL.get(name)
    if special is not None:
        return special(name, args, context)
    if name in SHELLS:
        return _shell(args)
    if name in PYTHONS:
        code = _after(args, "-c")
        return python_harm(code) if code is not None else Harm("unknown", "a Python program")
    if name in DESTROYS or name.startswith("mkfs."):
        return READS_ONLY if args and args[0] in ("--help", "--version") else Harm("destroys", f"{name}")
    if name in WRITES:
        return _writes(name, args, context)
    if name in READS and (does := _does_more(name, args)):
        return Harm("unknown", f"{name} {does}")
    return READS_ONLY if name in READS else Harm("unknown", f"{name} is not known")


def _does_more(name: str, args: Words) -> str:
    """How a program that otherwise only reads is made to write or to run another; empty: it is not."""
    operands = _operands(args)
    if name in ("uniq", "xxd") and len(operands) > 1:
        return "into a file"
    if (name == "hostname" and operands) or (name == "history" and args):
        return "that changes what it shows"
    if name in ("less", "more") and any(word is None or word.startswith("+") for word in args):
        return "that runs commands"
    return "with an option that writes or runs" if name in MORE and _has(args, *MORE[name]) else ""


def _after(args: Words, option: str) -> str | None:
    """The literal word after `option`, which may end a cluster of short options."""
    for index, word in enumerate(args[:-1]):
        if word is None or not word.startswith("-"):
            return None
        if word == option or (not word.startswith("--") and word.endswith(option[1:])):
            return args[index + 1]
    return None


def _text_after(args: Words, options: Sequence[str]) -> str | None:
    """The literal word after one of `options`, wherever it stands."""
    at = next((index for index, word in enumerate(args[:-1]) if word in options), None)
    return None if at is None else args[at + 1]


def _shell(args: Words) -> Harm | ScriptText:
    while len(args) > 1 and args[0] in ("-o", "+o", "-O", "+O"):
        args = args[2:]
    text = _after(args, "-c")
    return ScriptText(text) if text is not None else Harm("unknown", "a shell script")


def _has(args: Words, letters: str, *long: str) -> bool:
    """Whether a short option of `letters`, alone or in a cluster, or one of the long options is given."""
    for word in args:
        if word == "--":
            return False
        if word is None or not word.startswith("-"):
            continue
        if word.startswith("--"):
            if len(word) > 3 and any(option.startswith(word.partition("=")[0]) for option in long):
                return True
        elif any(letter in letters for letter in word[1:]):
            return True
    return False


def _operands(args: Words) -> list[str | None]:
    return [word for word in args if word is None or not word.startswith("-")]


def _rm(name: str, args: Words, context: HarmContext) -> Harm:
    if _has(args, "rR", "--recursive"):
        return Harm("destroys", f"{name} of whole directories")
    foreign = [word for word in _operands(args) if not _is_own(word, context)]
    if foreign:
        return Harm("destroys", f"{name} of {foreign[0] or 'what an expansion yields'}")
    return Harm("writes", f"{name} of a named file")


def _is_own(word: str | None, context: HarmContext) -> bool:
    """Whether a path lies below the directory that all started in, or in a scratch directory."""
    if not word:
        return False
    path = join(context.here, word)
    if ".git" in path.split("/") or (path.startswith("/") and is_system(path, context)):
        return False
    if any(within(path, folder) and path != folder for folder in SCRATCH):
        return True
    if context.start == START:
        return not path.startswith(("/", "..")) and path != START
    return within(path, context.start) and path != context.start


_ONTO = {"tee": 0, "truncate": 0, "chmod": 0, "chown": 0, "chgrp": 0, "mv": 0, "cp": -1, "ln": -1, "install": -1}
"""From which operand on a program writes to its operands."""


def _writes(name: str, args: Words, context: HarmContext) -> Harm:
    """Programs that write; some of them only deeply, or elsewhere, with harm."""
    if name in ("chmod", "chown", "chgrp") and _has(args, "R", "--recursive"):
        return Harm("destroys", f"{name} of whole directories")
    if name == "rsync" and any(word and word.startswith("--del") for word in args):
        return Harm("destroys", "rsync that deletes")
    if name == "tar" and "--remove-files" in args:
        return Harm("destroys", "tar that removes what it packed")
    if name in _ONTO:
        paths = [join(context.here, word) for word in _operands(args)[_ONTO[name] :] if word]
        system = [path for path in paths if is_system(path, context) or (name == "mv" and path == "/dev/null")]
        if system:
            return Harm("destroys", f"{name} onto {system[0]}")
    return Harm("writes", name)


def _dd(name: str, args: Words, context: HarmContext) -> Harm:
    onto = next((word for word in args if word is None or word.startswith("of=")), "")
    if onto == "":
        return READS_ONLY
    return READS_ONLY if onto == "of=/dev/null" else Harm("destroys", "dd onto a file or device")


def _kill(name: str, args: Words, context: HarmContext) -> Harm:
    return READS_ONLY if not args or args[0] in ("-0", "-l", "-L", "--list") else Harm("destroys", "kill of a process")


def _init(name: str, args: Words, context: HarmContext) -> Harm:
    stops = {"0", "6", "stop", "poweroff", "reboot", "halt", "kexec", "kill", "rescue", "emergency"}
    if any(word in stops for word in args):
        return Harm("destroys", f"{name} that stops the machine or a service")
    return Harm("unknown", name)


def _find(name: str, args: Words, context: HarmContext) -> Harm | ScriptText:
    if "-delete" in args:
        return Harm("destroys", "find that deletes")
    worst: Harm | ScriptText = READS_ONLY
    judged = 0
    for index, word in enumerate(args):
        if word in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"):
            rest = args[index + 1 :]
            end = next((at for at, argument in enumerate(rest) if argument in (";", "+")), len(rest))
            judged += 1
            if judged > _MAX_EXECS or context.finds >= _MAX_FINDS:
                return Harm("unknown", "find that runs too many commands")
            inside = context._replace(finds=context.finds + 1)
            inner = judge([None if argument and "{}" in argument else argument for argument in rest[:end]], inside)
            if isinstance(inner, ScriptText) or inner.level == "destroys":
                return inner
            worst = inner if inner != READS_ONLY else worst
        elif word in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            worst = Harm("writes", "find that writes a list")
    return worst


def _sed(name: str, args: Words, context: HarmContext) -> Harm:
    if any(word and word.startswith(("-i", "--in-place")) for word in args) or _has(args, "i"):
        system = [word for word in _operands(args) if word and is_system(join(context.here, word), context)]
        return Harm("destroys", f"sed in {system[0]}") if system else Harm("writes", "sed in place")
    script = _after(args, "-e") or next(iter(_operands(args)), None) or ""
    return READS_ONLY if not set(script) & set("wWe") else Harm("unknown", "a sed script that may write")


def _awk(name: str, args: Words, context: HarmContext) -> Harm:
    program = next(iter(_operands(args)), None)
    harmless = program is not None and not any(text in program for text in (">", "|", "system"))
    return READS_ONLY if harmless else Harm("unknown", "an awk program that may write or run another")


def _sort(name: str, args: Words, context: HarmContext) -> Harm:
    if _has(args, "", "--compress-program"):
        return Harm("unknown", "sort that runs a program")
    return Harm("writes", "sort -o") if _has(args, "o", "--output") else READS_ONLY


def _curl(name: str, args: Words, context: HarmContext) -> Harm:
    return (
        Harm("writes", "curl into a file") if _has(args, "oO", "--output", "--remote-name") else Harm("unknown", "curl")
    )


def _date(name: str, args: Words, context: HarmContext) -> Harm:
    return Harm("unknown", "date that sets the clock") if _has(args, "s", "--set") else READS_ONLY


def _eval(name: str, args: Words, context: HarmContext) -> Harm | ScriptText:
    texts = [word for word in args if word is not None]
    return (
        ScriptText(" ".join(texts)) if len(texts) == len(args) else Harm("unknown", "eval of what an expansion yields")
    )


def _su(name: str, args: Words, context: HarmContext) -> Harm | ScriptText:
    text = _text_after(args, ("-c", "--command"))
    return ScriptText(text) if text is not None else Harm("unknown", "another user's shell")


def _trap(name: str, args: Words, context: HarmContext) -> Harm | ScriptText:
    """`trap` and `alias` run later what they are given now."""
    texts = [word.partition("=")[2] if name == "alias" else word for word in args if word]
    text = "\n".join(texts if name == "alias" else texts[:1])
    return ScriptText(text) if text.strip() not in ("", "-", "--", "-l", "-p") else READS_ONLY


def _containers(name: str, args: Words, context: HarmContext) -> Harm:
    deadly = {"rm", "rmi", "kill", "prune", "delete", "drain"}
    if any(word in deadly for word in _operands(args)[:3]):
        return Harm("destroys", f"{name} that removes")
    return Harm("unknown", name)


def _signals(name: str, args: Words, context: HarmContext) -> Harm:
    deadly = _has(args, "k", "--kill") if name == "fuser" else _has(args, "r")
    return Harm("destroys", f"{name} that kills or removes") if deadly else Harm("unknown", name)


def _git(name: str, args: Words, context: HarmContext) -> Harm | ScriptText:
    rest = list(args)
    for word in rest:
        if word and word.startswith("alias.") and "=!" in word:
            return ScriptText(word.partition("=!")[2])
    configured = False
    while rest and rest[0] and rest[0].startswith("-"):
        setting = rest[1] or "" if rest[0] == "-c" and len(rest) > 1 else ""
        configured = (
            configured
            or rest[0].startswith(("--config-env", "--exec-path="))
            or not setting.startswith(("user.", "color.", "log.", "core.quot") if rest[0] == "-c" else "")
        )
        rest = rest[2:] if rest[0] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else rest[1:]
    if not rest or rest[0] is None:
        return Harm("unknown", "git") if rest else READS_ONLY
    command, *options = str(rest[0]), *rest[1:]
    if _git_destroys(command, options):
        return Harm("destroys", f"git {command} that discards or publishes")
    if configured or (command == "grep" and _has(options, "O", "--open-files-in-pager")):
        return Harm("unknown", f"git {command} that may run a program")
    if command in GIT_READS or (command in ("diff", "branch", "remote", "tag") and not _operands(options)):
        return READS_ONLY if not _has(options, "", "--output") else Harm("writes", f"git {command} into a file")
    return READS_ONLY if command == "diff" else Harm("writes", f"git {command}")


_FILE = re.compile(r"^\.|/$|\.[a-z]{1,5}$")
"""A word that is rather a file than a branch."""


def _git_destroys(command: str, options: Words) -> bool:
    operands = _operands(options)
    first = operands[0] if operands else None
    force = _has(options, "f", "--force")
    dry = _has(options, "n", "--dry-run")
    if command == "checkout":
        paths = len(operands) > 1 and not _has(options, "bBt", "--orphan", "--track")
        return force or paths or "--" in options or any(word is None or _FILE.search(word) for word in operands)
    if command == "restore":
        return not _has(options, "S", "--staged") or _has(options, "W", "--worktree")
    rules: dict[str, bool] = {
        "reset": _has(options, "", "--hard", "--merge", "--keep"),
        "clean": force and not dry,
        "push": not dry,
        "branch": _has(options, "D") or (_has(options, "d", "--delete") and force),
        "stash": first in ("drop", "clear"),
        "rm": not _has(options, "", "--cached") and not dry,
        "switch": force or _has(options, "", "--discard-changes"),
        "worktree": first == "remove",
        "reflog": first in ("expire", "delete"),
        "update-ref": _has(options, "d"),
        "read-tree": _has(options, "", "--reset"),
        "checkout-index": force,
        "filter-branch": True,
        "filter-repo": True,
    }
    return rules.get(command, False)


_SPECIAL: dict[str, Callable[[str, Words, HarmContext], Harm | ScriptText]] = {
    "rm": _rm,
    "unlink": _rm,
    "dd": _dd,
    "kill": _kill,
    "init": _init,
    "telinit": _init,
    "systemctl": _init,
    "find": _find,
    "fd": _find,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sort": _sort,
    "curl": _curl,
    "date": _date,
    "eval": _eval,
    "su": _su,
    "trap": _trap,
    "alias": _trap,
    "service": _init,
    "fuser": _signals,
    "crontab": _signals,
    "docker": _containers,
    "podman": _containers,
    "kubectl": _containers,
    "git": _git,
}
