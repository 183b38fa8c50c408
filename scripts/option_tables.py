"""Writes `src/paddock/shell/option_tables/*.options.toml`: options of programs, from their own help and manuals.

Usage   python scripts/option_tables.py [--check] [PROGRAM ...]: of programs that are not installed nothing is written;
        with --check nothing is, and a table that an installed program of the same version contradicts exits 1.
Source  what the commands of `PROGRAMS` print. `PATH` says which programs; Debian's `man` reads manuals.
Shapes  one file per program, one section per command: `switches` take no value, `values` take one, attached or as the
        next word, `optional` only an attached one, `pairs` two words. Names that mean the same stand in one text.
Law     names of one line of a help text mean the same where one is short and one long, or all are long; in git's
        manual, which puts related options on one line, only beside a single long one.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / "src" / "paddock" / "shell" / "option_tables"
HEAD = "# Written by scripts/option_tables.py from the program's own help; what people decide is in decisions.toml.\n"
Takes = Literal["switches", "values", "optional", "pairs"]
Style = Literal["gnu", "git", "go", "npm", "yargs"]
"""How a help text is laid out; `gnu` stands for all that put names, value and description on a line."""
KINDS: tuple[Takes, ...] = ("switches", "optional", "values", "pairs")


class Spec(NamedTuple):
    """One option: names that mean the same, and what they take."""

    names: tuple[str, ...]
    takes: Takes


class HelpSource(NamedTuple):
    """Where the options of a program's commands are written."""

    version: Sequence[str]
    helps: Mapping[str, Sequence[str]]
    """The command that prints the options of each command."""
    style: Style = "gnu"


def _coreutils(*names: str) -> dict[str, HelpSource]:
    return {name: HelpSource((name, "--version"), {name: (name, "--help")}) for name in names}


def _of_subcommands(name: str, words: str, form: str = "{0} {1} --help", style: Style = "gnu") -> dict[str, HelpSource]:
    helps = {f"{name} {word}": form.format(name, word).split() for word in words.split()}
    return {name: HelpSource((name, "--version" if name != "go" else "version"), helps, style)}


GIT = (
    "add am apply bisect blame branch checkout cherry-pick clean clone commit describe diff fetch format-patch grep "
    "init log ls-files ls-tree merge merge-base mv pull push rebase reflog reset restore rev-list rev-parse revert rm "
    "shortlog show stash status switch tag worktree"
)
PROGRAMS: dict[str, HelpSource] = {
    **_coreutils(
        "cat", "chmod", "chown", "cp", "cut", "diff", "du", "grep", "head", "ln", "ls", "make", "mkdir", "mv", "nl",
        "patch", "rm", "rmdir", "sed", "sort", "stat", "tac", "tail", "tar", "tee", "touch", "tr", "uniq", "wc", "wget",
        "xargs", "ack", "ag", "rg", "tree", "node", "black", "mypy",
    ),
    "awk": HelpSource(("gawk", "--version"), {"awk": ("gawk", "--help")}),
    "curl": HelpSource(("curl", "--version"), {"curl": ("curl", "--help", "all")}),
    "fd": HelpSource(("fdfind", "--version"), {"fd": ("fdfind", "--help")}),
    "python": HelpSource(("python3", "--version"), {
        "python": ("python3", "--help"), "python -m unittest": ("python3", "-m", "unittest", "--help"),
        "python -m unittest discover": ("python3", "-m", "unittest", "discover", "--help"),
    }),
    "pytest": HelpSource(("pytest", "-VV", "-p", "no:cacheprovider"), {"pytest": ("pytest", "--help")}),
    "jq": HelpSource(("jq", "--version"), {"jq": ("man", "jq")}),
    "jest": HelpSource(("jest", "--version"), {"jest": ("jest", "--help")}, "yargs"),
    **_of_subcommands("pip", "install uninstall list show freeze download check"),
    **_of_subcommands("ruff", "check format"),
    **_of_subcommands("cargo", "build test run check bench doc add"),
    **_of_subcommands("npm", "install ci test run exec ls init uninstall view", style="npm"),
    **_of_subcommands("go", "build testflag run vet get install list fmt mod", "{0} help {1}", "go"),
    **_of_subcommands("git", GIT, "man {0}-{1}", "git"),
}  # fmt: skip
_NO_NAME = re.compile(r"-{1,2}[A-Z]{3,}\b|-#|-\w\w+")
_NAME = re.compile(r"--?(?:\[no-?\])?[A-Za-z0-9?@#.][A-Za-z0-9_.-]*")
_NEGATED = re.compile(r"\[no-?\]")
_VALUE = re.compile(r"(?P<optional>\[=?[^\]]*\]+)|=(?:<[^>]*>|\[[^\]]*\]+|\S*?)(?=[,|/]? |[,|/]-|$)|<[^>]*>\S*")
_WORD = re.compile(
    r" (?P<optional>\[[A-Z]+\])"
    r"|(?: (?P<pair>[a-z] [a-z]|(?:variable-)?name (?:value|filename|JSON-text)):?$)"
    r"| (?!--?\w)(?:<[^>]*>|\[<[^>]*>\]|\[\w+:[^\]]*\]\S+|\{[^}]*\}|'[^']*'|#|[A-Z][A-Z_-]*(?=$|[ ,|])"
    r"|[\w./:=,|-]+(?=$|,| /))+(?:\.\.\.)?"
)
_PROSE_SWITCH = re.compile(r"(?:disabled|overridden|negated) with (--[\w-]+)")
_USAGE = re.compile(r"\[?(--[a-z][\w-]*)((?:=| )(?:<[^>]*>))?")
_YARGS_TYPE = re.compile(r"\[(boolean|string|array|number|count)\]\s*$")


def specs_of(text: str, style: Style = "gnu") -> list[Spec]:
    """Read the options of a help text, each name once: its first line says what it takes."""
    found: list[Spec] = []
    lines = re.sub(r"^\t", "    ", text, flags=re.M).expandtabs().splitlines()
    for at, line in enumerate(lines):
        line = re.sub(r"^ *(?:[\u2022\u25cb] +(?=-)|-<num(?:ber)?>, (?=-))", "", line)
        if re.match(r" {0,7}-", line) and not line.strip().startswith(("- ", "---", "-> ")):
            specs = list(_of_line(_without_description(line, style), style))
            found.extend(_typed(spec, lines, at) for spec in specs) if style == "yargs" else found.extend(specs)
        if prose := _PROSE_SWITCH.search(line):
            found.append(Spec((prose[1],), "switches"))
    usage = list(_of_usage(text)) if style in ("git", "npm") else []
    known = {name for spec in found for name in spec.names}
    valued = {name for spec in usage for name in spec.names if spec.takes == "values"} if style == "npm" else set()
    found = [spec._replace(takes="values") if valued & set(spec.names) else spec for spec in found]
    return _once([*found, *(spec for spec in usage if not known & set(spec.names))])


def _once(specs: Sequence[Spec]) -> list[Spec]:
    seen: set[str] = set()
    once: list[Spec] = []
    for spec in sorted(specs, key=lambda spec: -len(spec.names)):
        names = tuple(name for name in spec.names if name not in seen)
        seen.update(names)
        if names:
            once.append(Spec(names, spec.takes))
    return sorted(once, key=lambda spec: [name.strip("-").lower() for name in spec.names])


def _without_description(line: str, style: Style) -> str:
    line = re.sub(r"(?<=[,|]) +(?=-)", " ", line.strip())
    line = re.sub(r"^(-\w(?: [\w'=-]+|\[\S+\])?) {2,}(?=--)", r"\1, ", line)
    if style == "go":
        return line
    return re.split(r" {2,}| : |:? *$", line)[0]


def _of_line(text: str, style: Style) -> Iterator[Spec]:
    names: list[str] = []
    takes: dict[str, Takes] = {}
    while text:
        name = _NAME.match(text)
        if name is None or (style != "go" and _NO_NAME.fullmatch(name[0])):
            break
        text = text[name.end() :].removeprefix("...")
        names.append(name[0].removesuffix("..."))
        takes.setdefault(names[-1], "switches")
        value = _VALUE.match(text) or (_WORD.match(text) if not re.match(r" \(| or ", text) else None)
        if value is not None and _is_value(value, text):
            text = text[value.end() :]
            groups = value.groupdict()
            takes[names[-1]] = "optional" if groups.get("optional") else "pairs" if groups.get("pair") else "values"
        separator = re.match(r"(?:\.\.\.)?(?: \.\.\.)?(?:, ?|\|| or | / |/| )(?=-)", text)
        if separator is None:
            break
        text = text[separator.end() :]
    kind: Takes = next((kind for kind in reversed(KINDS) if kind in takes.values()), "switches")
    for negated in ("", "no"):
        spelled = [_NEGATED.sub(lambda mark, n=negated: n and mark[0][1:-1], name) for name in names]  # type: ignore[misc]
        if spelled and (not negated or spelled != names):
            # Where git's pages give several long names in one line, each stands with its own value.
            own = style == "git" and len({name for name in names if name.startswith("--")}) > 1
            kinds: list[Takes] = [
                "switches" if negated else takes[name] if own and name.startswith("--") else kind for name in names
            ]
            yield from _synonyms(spelled, kinds, style)


def _is_value(match: re.Match[str], text: str) -> bool:
    """Say whether a word behind a name is its value: prose goes on for several words."""
    if not match[0].startswith(" ") or re.match(r" [<[{#'A-Z]", match[0]):
        return len(match[0].strip()) > 1 or match[0].strip().isupper() or match[0].strip() == "#"
    return not re.match(r" \w+ \w", text[match.end() :])


def _synonyms(names: Sequence[str], takes: Sequence[Takes], style: Style) -> Iterator[Spec]:
    long = [name for name in names if name.startswith("--")]
    apart = (
        not long
        or (style == "git" and (len(long) > 1 or any(name[1:].isdigit() for name in names)))
        or len(set(names)) < len(names)
        or len(set(takes)) > 1
    )
    if apart or any(name.startswith("--no-") != long[0].startswith("--no-") for name in long):
        yield from (Spec((name,), kind) for name, kind in zip(names, takes, strict=True))
    else:
        yield Spec((*sorted(set(names) - set(long), key=names.index), *long), takes[0])


def _typed(spec: Spec, lines: Sequence[str], at: int) -> Spec:
    """Give an option the type that stands at the end of its description."""
    for line in lines[at : at + 12]:
        if kind := _YARGS_TYPE.search(line):
            return spec._replace(takes="switches" if kind[1] in ("boolean", "count") else "values")
    return spec


def _of_usage(text: str) -> Iterator[Spec]:
    """Read long options of a synopsis."""
    head = re.search(r"(?:SYNOPSIS\n|Usage:\n)(.*?)(?:\n  -|\nDESCRIPTION|$)", text, re.S)
    for name, value in _USAGE.findall(head[1] if head else ""):
        yield Spec((name,), "values" if value else "switches")


def table_text(program: str) -> str | None:
    """Return a program's table; None: it is not installed."""
    source = PROGRAMS[program]
    version = _version(_output(source.version))
    if version is None:
        return None
    parts = [HEAD, f'program = "{program}"\nversion = "{version}"\n']
    for command, words in source.helps.items():
        specs = specs_of(_output(words) or "", source.style)
        if specs:
            parts.append(f'\n["{command.replace("go testflag", "go test")}"]\nsource = "{" ".join(words)}"\n')
            parts.extend(_list(kind, [spec for spec in specs if spec.takes == kind]) for kind in KINDS)
    return "".join(parts) if len(parts) > 2 else None


def _list(kind: Takes, specs: Sequence[Spec]) -> str:
    if not specs:
        return ""
    return f"{kind} = [\n" + "".join(f'    "{" ".join(spec.names)}",\n' for spec in specs) + "]\n"


def _output(words: Sequence[str]) -> str | None:
    environment = {**os.environ, "MANWIDTH": "200", "MANPAGER": "cat", "LC_ALL": "C.UTF-8", "COLUMNS": "200",
                   "MAN_KEEP_FORMATTING": ""}  # fmt: skip
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL, cwd="/"
        )
    except FileNotFoundError:
        return None
    return re.sub(r".\x08", "", done.stdout or done.stderr)


def _version(text: str | None) -> str | None:
    """Return the first line of what a program says of its version, with its plugins."""
    lines = [line.strip() for line in (text or "").splitlines() if re.search(r"\d", line) and "arning" not in line]
    plugins = sorted(set(re.findall(r"(\S+-\d[\w.]*) at", text or "")))
    named = (
        re.sub(r"[^\w .+-]", "", re.split(r",|\)? from | imported | built ", lines[0])[0]).strip() if lines else None
    )
    return " with ".join([named, ", ".join(plugins)]) if named and plugins else named


def main(*words: str) -> int:
    check = "--check" in words
    stale = 0
    for program in [word for word in words if word != "--check"] or PROGRAMS:
        text, path = table_text(program), FOLDER / f"{program}.options.toml"
        if text is None:
            print(f"{program} is not installed, or says nothing of its options")
        elif not check:
            path.write_text(text)
        elif path.is_file() and _head(path.read_text()) == _head(text) and path.read_text() != text:
            print(f"{path.name} is not what {_head(text)} says: python scripts/option_tables.py {program}")
            stale = 1
    return stale


def _head(text: str) -> str:
    return text.split("\n\n", 1)[0].removeprefix(HEAD).replace("\n", ", ")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
