"""Everything else that is run: a pipeline of programs, compared as the shell's parser has it once decoration is gone.

Law     two are the same where `paddock.shell.equivalent` says so of each, in one directory, with the same variables,
        the same text to read and the same file to write. Before that each is spelled in one way: Python source by its
        syntax tree, modes of `chmod` as numbers, `install -d` and `mkdir -m` as what they stand for, the options of
        programs that `paddock.shell.program_options` knows without those that only change looks. A Python script is
        named from where it runs, and a `PYTHONPATH` of nothing but that directory, which Python looks into first
        anyway, is none: that another is set before is not known of any command.
Cut     as of a test run: the end of what is printed says how it went.
Errors  None where the output is cut to less, or a word is a pattern of the shell's that this does not follow.
"""

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, Stage
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.test_runs import MIN_FIRST_LINES, MIN_LAST_LINES
from paddock.resources_servers.pivot.semantic.intents.views import is_file_name
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, differ
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import effects, equivalent
from paddock.shell.program_options import canonical_words
from paddock.shell.python_code import dump_python
from paddock.tools import Action

_MAX_SOURCE_CHARS = 20_000
"""Longer Python source is compared as it is: its tree would take more than a quarter of a second."""
_PYTHON = re.compile(r"(?:/usr/bin/)?python3?")
_OCTAL = re.compile(r"0*([0-7]{3})")
_SYMBOLIC = re.compile(r"([ugoa]+)=([rwx]*)")
_EVALUATES = "--eval="
_STRING = re.compile(r"""\"[^"\n]*\"|'([^'"\n]*)'""")
_MODULES = frozenset({"black", "ruff", "mypy", "pip"})
"""Programs that `python -m` runs as their own name does."""
_RUNNERS = frozenset({"python", "bash", "sh", "node", "ruby", "perl", "php", "pytest"})
"""Programs whose first operand is a script, which they run."""
_ADDED_BITS = re.compile(r"\+[rx]+")
_NAMES = {"python3": "python", "pip3": "pip", "fdfind": "fd", "ggrep": "grep"}


@dataclass(frozen=True, slots=True)
class ProgramPipeline:
    """A pipeline of programs, spelled in one way."""

    command: str
    """Text that the shell's parser reads, with patterns quoted."""
    globs: tuple[frozenset[int], ...]
    """Of each stage the words that are patterns of the shell."""
    directory: str | None
    environment: tuple[tuple[str, str], ...]
    stdin: str | None
    output_path: str | None
    appends: bool


def _of_action(_action: Action, _cwd: str | None) -> None:
    return None


def _of_command(command: BareCommand) -> list[ProgramPipeline] | None:
    if (command.last_lines or MIN_LAST_LINES) < MIN_LAST_LINES:
        return None
    if (command.first_lines or MIN_FIRST_LINES) < MIN_FIRST_LINES:
        return None
    if command.words and command.words[0] in ("mkdir", "install", "chmod") and command.is_plain:
        parts = _folders(command.stages[0])
        if parts is not None:
            return [_run(command, (replace(command.stages[0], words=words),)) for words in parts]
    stages = tuple(_plain_stage(stage, command.directory) for stage in _without_cat(command.stages))
    first = stages[0].words
    environment = tuple(one for one in command.environment if not _adds_nothing(one, first, command.directory))
    command = replace(command, environment=environment)
    if first[:2] == ("python", "-c") and len(first) == 3 and command.stdin is None and "stdin" not in first[2]:
        stages = (replace(stages[0], words=("python",)), *stages[1:])
        command = replace(command, stdin=command.stages[0].words[-1])
    elif first[:1] == ("make",) and first[1:] and first[1].startswith("--directory="):
        command = replace(command, directory=resolve(first[1].partition("=")[2], command.directory))
        stages = (replace(stages[0], words=("make", *first[2:])), *stages[1:])
    return [_run(command, stages)]


def _without_cat(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Give the file that `cat` sends into a program to the program itself."""
    if len(stages) < 2 or len(stages[0].words) != 2 or stages[0].words[0] != "cat" or stages[0].globs:
        return stages
    program, *words = stages[1].words
    operands = [word for word in words if not word.startswith("-")]
    if (program, len(operands)) not in (("wc", 0), ("jq", 1)):
        return stages
    return (replace(stages[1], words=(*stages[1].words, stages[0].words[1])), *stages[2:])


def _run(command: BareCommand, stages: Sequence[Stage]) -> ProgramPipeline:
    text = " | ".join(shlex.join(stage.words) for stage in stages)
    stdin = command.stdin
    if stdin is not None and _reads_python(stages[0].words):
        stdin = _tree(stdin)
    return ProgramPipeline(
        text,
        tuple(stage.globs for stage in stages),
        command.directory,
        command.environment,
        stdin,
        command.output_path,
        command.appends,
    )


def _reads_python(words: Sequence[str]) -> bool:
    return words == ("python",)


def _adds_nothing(variable: tuple[str, str], words: Sequence[str], directory: str | None) -> bool:
    """Say whether a variable is a `PYTHONPATH` of only the directory that Python looks for modules in anyway."""
    name, value = variable
    if name != "PYTHONPATH" or words[:1] != ("python",):
        return False
    script = words[1] if len(words) > 1 else "-c"
    looks_here = script in ("-c", "-m") or (script.endswith(".py") and "/" not in script)
    return looks_here and all(entry in (".", "./", directory) for entry in value.split(":"))


def _plain_stage(stage: Stage, directory: str | None) -> Stage:
    """Return a stage in one spelling, as far as it is known."""
    stage = replace(stage, words=_spelled(stage, directory))
    name, *words = stage.words
    if name != "rm" or "--" in words or not any(re.fullmatch(r"-[rRfv]*[rR][rRfv]*", word) for word in words):
        return stage
    # Of what is removed with all below it neither the order counts nor whether it is called a directory.
    options = [word for word in words if word.startswith("-")]
    paths = sorted(
        (_plain_path(word, is_glob=at in stage.globs), at in stage.globs)
        for at, word in enumerate(words, 1)
        if not word.startswith("-")
    )
    globs = frozenset(at for at, (_, is_glob) in enumerate(paths, 1 + len(options)) if is_glob)
    return Stage((name, *options, *(path for path, _ in paths)), globs)


def _plain_path(path: str, *, is_glob: bool) -> str:
    """Return a path without `./` in front and slashes behind; those of a pattern say that it takes only directories."""
    plain = re.sub(r"^(?:\./+)+(?=[^/-])", "", path)
    return plain if is_glob else re.sub(r"(?<=[^/])/+$", "", plain)


def _spelled(stage: Stage, directory: str | None) -> tuple[str, ...]:
    """Return the words of a program in one spelling, as far as it is known."""
    words = stage.words
    program = "python" if _PYTHON.fullmatch(words[0]) else _NAMES.get(words[0], words[0])
    words = (program, *words[1:])
    if program == "tar" and len(words) > 1 and re.fullmatch(r"[A-Za-z]*[xctzjJvp]+f?", words[1]):
        words = ("tar", "-" + words[1], *words[2:])
    if program == "python":
        words = canonical_words(words) or words
    if words[1:2] == ("-m",) and program == "python" and words[2:] and words[2] in _MODULES:
        words = words[2:]
    if not stage.globs:
        words = canonical_words(words) or words
    if program == "git":
        words = _git(words)
    match words:
        case ["python", "-c", source, *rest]:
            return ("python", "-c", _tree(source), *rest)
        case ["python", "-"]:
            return ("python",)
        case ["node", option, *rest] if option.startswith(_EVALUATES):
            return ("node", _with_double_quotes(option), *rest)
        case ["python", script, *rest] if not script.startswith("-"):
            return ("python", _from(directory, script), *rest)
        case ["chmod", mode, path] if _ADDED_BITS.fullmatch(mode):
            return ("chmod", "a" + mode, path)
        case _:
            return words


def _with_double_quotes(source: str) -> str:
    """Return JavaScript with its plain strings in double quotes; as it is where quotes may be something else."""
    if set("`\\") & set(source) or "/" in _STRING.sub("", source):
        return source
    return _STRING.sub(lambda match: match[0] if match[1] is None else f'"{match[1]}"', source)


def _from(directory: str | None, path: str) -> str:
    """Return a path as it is named from a directory above it."""
    if path.endswith("/"):
        return path
    if directory is None or not directory.startswith("/"):
        return posixpath.normpath(path)
    return resolve(path, directory).removeprefix(f"{directory.rstrip('/')}/")


def _git(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return git's words in one spelling: newer names of subcommands, defaults, and `--` where it says nothing."""
    match words:
        case ["git", "switch", option, *rest] if option.startswith("--create="):
            return ("git", "checkout", "-b", option.partition("=")[2], *rest)
        case ["git", "show"]:
            return ("git", "show", "HEAD")
        case ["git", "restore", *paths] if paths and not any(path.startswith("-") for path in paths):
            return ("git", "checkout", "--", *paths)
        case ["git", "checkout", *paths] if paths and all(map(is_file_name, paths)):
            return ("git", "checkout", "--", *paths)
        case ["git", "log" | "blame" | "diff" | "add", *_] if "--" in words:
            at = words.index("--")
            return words[:at] + words[at + 1 :] if all(map(is_file_name, words[at + 1 :])) else words
        case _:
            return words


def _tree(source: str) -> str:
    """Return Python source as its syntax tree; as it is where it is none, or long."""
    return source if len(source) > _MAX_SOURCE_CHARS else dump_python(source) or source


def _folders(stage: Stage) -> list[tuple[str, ...]] | None:
    """Return `mkdir -m`, `install -d` and `chmod` as a `mkdir` and a `chmod`; None: they do something else."""
    words = list(stage.words)
    program = words.pop(0)
    if program == "chmod" and len(words) == 2 and not words[0].startswith("-"):
        mode = _mode(words[0])
        return None if mode is None or stage.globs else [("chmod", mode, words[1])]
    mode, flags, paths = None, set[str](), list[str]()
    while words:
        word = words.pop(0)
        if word in ("-m", "--mode") and words:
            mode = _mode(words.pop(0))
        elif word.startswith(("--mode=", "-m")) and len(word) > 2:
            mode = _mode(word.removeprefix("--mode=").removeprefix("-m"))
        elif word in ("-p", "--parents", "-d", "--directory"):
            flags.add(word[:2] if not word.startswith("--") else {"--parents": "-p", "--directory": "-d"}[word])
        elif word.startswith("-"):
            return None
        else:
            paths.append(word)
            continue
        if mode is None and word.startswith(("-m", "--mode")):
            return None
    if len(paths) != 1 or stage.globs:
        return None
    if program == "mkdir" and mode is None:
        return None
    if program == "install" and flags != {"-d"}:
        return None
    if mode is None:
        return [("mkdir", "-p", paths[0])]
    makes = ("mkdir", "-p", paths[0]) if "-p" in flags or program == "install" else ("mkdir", paths[0])
    return [makes, ("chmod", mode, paths[0])]


def _mode(text: str) -> str | None:
    """Return a mode as three octal digits; None: it sets only some of the bits."""
    if found := _OCTAL.fullmatch(text):
        return found[1]
    bits: dict[str, int] = {}
    for part in text.split(","):
        found = _SYMBOLIC.fullmatch(part)
        if found is None:
            return None
        value = sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(found[2]))
        bits.update(dict.fromkeys("ugo" if "a" in found[1] else found[1], value))
    return "".join(str(bits[who]) for who in "ugo") if bits.keys() == set("ugo") else None


def may_write(pipeline: ProgramPipeline, path: str) -> bool:
    """Say whether it is known to change texts of files, or may change that of a file that it is given the name of."""
    if pipeline.output_path is None and pipeline.command.split(" ")[0] in ("mkdir", "touch", "chmod"):
        return "|" in pipeline.command
    done = effects(pipeline.command, cwd=pipeline.directory)
    return pipeline.output_path is not None or done.writes or done.destructive or _is_given(pipeline, path)


def _is_given(pipeline: ProgramPipeline, path: str) -> bool:
    """Whether a program that is not known only to read is given a file, which is not the script that it runs."""
    stages = pipeline.command.split(" | ")
    for text in stages if posixpath.basename(path) in pipeline.command else ():
        program, *rest = text.split(" ")
        operands = [word.strip("'") for word in rest if not word.startswith("-")]
        if program in _RUNNERS or (program == "python" and rest[:2] == ["-m", "pytest"]):
            operands = operands[1:]
        named = any(resolve(word, pipeline.directory) == path for word in operands)
        if named and not effects(text, cwd=pipeline.directory).reads_only:
            return True
    return False


def _compare(expected: ProgramPipeline, actual: ProgramPipeline, _surroundings: Surroundings) -> MatchResult:
    if replace(expected, command="") != replace(actual, command=""):
        return differ("command_differs", f"{clip(actual.command)} runs elsewhere, or reads or writes something else")
    cwd = expected.directory if expected.directory and expected.directory.startswith("/") else None
    if expected.command == actual.command or equivalent(expected.command, actual.command, cwd=cwd).equal:
        return SAME
    return differ("command_differs", f"expected {clip(expected.command)}, came {clip(actual.command)}")


PROGRAMS = IntentKind(ProgramPipeline, _of_action, _of_command, _compare, changes=True)
