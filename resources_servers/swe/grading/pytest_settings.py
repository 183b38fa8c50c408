"""What pytest loads because a configuration says so: modules, read out of the text as pytest reads it.

Files   `pytest.ini`, `.pytest.ini`, `tox.ini`, `setup.cfg` by the grammar of iniconfig; `pyproject.toml`,
        `pytest.toml`, `.pytest.toml` as TOML. Of each, the tables that some version of pytest takes; of a `tox.ini`
        also what it runs pytest with; entry points of the group `pytest11`, which count once it is installed.
Words   of `addopts` are split as a shell does it, so quotes, escapes and lines hide none.
Part    a text of which only a part is known (`whole=False`) is read as if each line might be pytest's.
Errors  none: with what can't be read pytest does not start either.
Source  pytest 9.2 `_pytest/config/findpaths.py`, `_pytest/config/__init__.py`; iniconfig 2.3 `_parse.py`.
"""

import ast
import io
import re
import shlex
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

INI_FILES = frozenset({"pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"})
TOML_FILES = frozenset({"pytest.toml", ".pytest.toml", "pyproject.toml"})
CONFIG_FILES = INI_FILES | TOML_FILES
_TABLES = frozenset({"pytest", "tool:pytest"})
_ENTRY_POINTS = frozenset({"options.entry_points", "entry_points"})
_GROUP = "pytest11"
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'")
_ENVIRONMENT = re.compile(r"PYTEST_(ADDOPTS|PLUGINS)\s*=\s*")


class PytestSettings(NamedTuple):
    """Names that a configuration has pytest import or collect."""

    plugins: frozenset[str] = frozenset()
    """Modules that are loaded as plugins."""
    entry_points: frozenset[str] = frozenset()
    """Modules that are loaded as plugins once the project is installed."""
    categories: frozenset[str] = frozenset()
    """Modules that are imported for a warning's category."""
    test_names: frozenset[str] = frozenset()
    """Patterns (fnmatch) of names of files that are collected as tests."""
    argument_files: frozenset[str] = frozenset()
    """Files, as `@` names them, that hold more arguments, one a line."""

    def plus(self, other: "PytestSettings") -> "PytestSettings":
        return PytestSettings(*(mine | theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: "PytestSettings") -> "PytestSettings":
        return PytestSettings(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = PytestSettings()


def read_settings(name: str, text: str, *, whole: bool = True) -> PytestSettings:
    """Read a configuration file's text; `name` is the file's, without its folder."""
    if name in TOML_FILES:
        return _of_toml(text, whole=whole)
    return _of_ini(text, whole=whole) if name in INI_FILES else NOTHING


def read_arguments(text: str) -> PytestSettings:
    """Read a file of arguments: one a line, as argparse has it, or several."""
    return _of_words([word for line in text.splitlines() for word in (line, *_words(line))])


def listed_plugins(code: str) -> frozenset[str]:
    """Return the strings that Python code gives `pytest_plugins`."""
    texts: list[str] = []
    in_list = joined = False
    # As an interpreter reads a file: each of the three line ends is one. No interpreter runs code with null bytes. The
    # tokenizer of Python 3.12 and later fails over both, with errors that are no syntax errors.
    code = code.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NAME and token.string == "pytest_plugins":
                in_list = True
            elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
                in_list = False
            elif in_list and token.type == tokenize.STRING and (text := _literal(token.string)) is not None:
                texts.append(texts.pop() + text if joined else text)
                joined = True
                continue
            joined = joined and token.type in (tokenize.NL, tokenize.COMMENT)
    except (tokenize.TokenError, SyntaxError):
        pass  # a part of a file, or of an older Python: what was read is known
    return frozenset(name.strip() for text in texts for name in text.split(",") if name.strip())


_NO_TOML = (ValueError, RecursionError)
"""Raised over what is none, over numbers of thousands of digits, and over lists in lists a thousand times."""


class _NameSets:
    """The sets of a `PytestSettings` while they grow."""

    def __init__(self) -> None:
        self._sets: dict[str, set[str]] = {field: set() for field in PytestSettings._fields}

    def add(self, field: str, *names: str) -> None:
        self._sets[field].update(name for name in names if name)

    def join(self, other: PytestSettings) -> Self:
        for field, names in other._asdict().items():
            self._sets[field] |= names
        return self

    def settings(self) -> PytestSettings:
        return PytestSettings(**{field: frozenset(names) for field, names in self._sets.items()})


class _Value(NamedTuple):
    section: str | None
    """None: the part of the text that is known does not tell."""
    key: str | None
    text: str


def _of_ini(text: str, *, whole: bool) -> PytestSettings:
    sets = _NameSets()
    for section, key, value in _ini_values(text):
        if section in _TABLES or (section is None and not whole):
            keys = (key,) if key is not None else ("addopts", "filterwarnings", "python_files")
            for name in keys:
                sets.join(_of_setting(name, value))
        if key == _GROUP and (section in _ENTRY_POINTS or section is None):
            sets.add("entry_points", *_modules(value.splitlines()))
        if section not in _TABLES:
            sets.join(_of_commands(value))
    return sets.settings()


def _ini_values(text: str) -> Iterator[_Value]:
    """Yield values with the lines that continue them."""
    section = key = None
    lines: list[str] = []
    for raw in text.removeprefix("\ufeff").splitlines():
        line = raw.rstrip()
        if not line or line.lstrip()[0] in "#;":
            continue
        head = re.split("[#;]", line, maxsplit=1)[0].rstrip()
        if line[0].isspace() or (line[0] == "[" and not head.endswith("]")):
            lines.append(line.strip())
            continue
        if lines:
            yield _Value(section, key, "\n".join(lines))
        if line[0] == "[":
            section, key, lines = head[1:-1].strip(), None, []
            continue
        name, equals, value = line.partition("=")
        if not equals or ":" in name:
            name, _, value = line.partition(":")
        key, lines = name.strip(), [value.strip()]
    if lines:
        yield _Value(section, key, "\n".join(lines))


def _of_toml(text: str, *, whole: bool) -> PytestSettings:
    try:
        document = tomllib.loads(text)
    except _NO_TOML:
        return NOTHING if whole else _of_words([word for part in _LITERAL.findall(text) for word in _unescaped(part)])
    tool, project = _table(document, "tool"), _table(document, "project")
    tables = [_table(document, "pytest"), _table(tool, "pytest"), _table(tool, "pytest", "ini_options")]
    sets = _NameSets()
    for table in tables if whole else [*tables, document]:
        for key, value in table.items():
            sets.join(_of_setting(key, value))
    for points in (_table(project, "entry-points", _GROUP), _table(tool, "poetry", "plugins", _GROUP)):
        sets.add("entry_points", *_modules(map(str, points.values())))
    legacy = _table(tool, "tox").get("legacy_tox_ini")
    if isinstance(legacy, str):
        sets.join(_of_ini(legacy, whole=True))
    return sets.settings()


def _of_setting(key: str, value: Any) -> PytestSettings:
    """Read one setting of pytest's."""
    given = value if isinstance(value, list) else [value]
    texts = [item for item in given if isinstance(item, str)]
    if key == "filterwarnings":
        return _of_filters([line for text in texts for line in text.splitlines()])
    words = [word for text in texts for word in _words(text)] if isinstance(value, str) else texts
    if key == "python_files":
        return PytestSettings(test_names=frozenset(words))
    return _of_words(words) if key == "addopts" else NOTHING


def _of_words(words: Sequence[str]) -> PytestSettings:
    """Read arguments of pytest's."""
    sets = _NameSets()
    for nth, word in enumerate(words):
        following = words[nth + 1] if nth + 1 < len(words) else ""
        option, value = _option(word.strip(), following)
        if option == "-p" and not value.startswith("no:"):
            sets.add("plugins", value)
        elif option == "-W":
            sets.join(_of_filters([value]))
        elif option == "-o":
            key, _, text = value.partition("=")
            sets.join(_of_setting(key.strip(), text))
        elif option == "@":
            sets.add("argument_files", value)
    return sets.settings()


class _Option(NamedTuple):
    name: str
    """As one letter; empty: a word that loads nothing."""
    value: str = ""


def _option(word: str, following: str) -> _Option:
    for long, short in (("--pythonwarnings", "-W"), ("--override-ini", "-o")):
        if word.split("=", 1)[0] == long:
            word = short + word[len(long) :]
    if word[:1] == "@":
        return _Option("@", word[1:])
    if word[:2] not in ("-p", "-W", "-o"):
        return _Option("")
    return _Option(word[:2], (word[2:].removeprefix("=") or following).strip())


def _of_filters(lines: Iterable[str]) -> PytestSettings:
    """Read filters of warnings, `action:message:category:module:line`."""
    fields = (line.split(":") for line in lines)
    categories = (parts[2].strip() for parts in fields if len(parts) > 2)
    return PytestSettings(categories=frozenset(name.rpartition(".")[0] for name in categories if "." in name))


def _of_commands(text: str) -> PytestSettings:
    """Read lines that run pytest, or set its variables."""
    sets = _NameSets()
    for line in text.splitlines():
        if "pytest" not in line.lower() and "py.test" not in line:
            continue
        kinds = _ENVIRONMENT.findall(line)
        words = _words(_ENVIRONMENT.sub(" ", line))
        sets.join(_of_words(words))
        if "PLUGINS" in kinds:
            sets.add("plugins", *(name.strip() for word in words for name in word.split(",")))
    return sets.settings()


def _modules(points: Iterable[str]) -> list[str]:
    """Return the modules of entry points, `name = module:attribute` or without the name."""
    return [point.rpartition("=")[2].partition(":")[0].strip() for point in points]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [word.strip("'\"") for word in text.split()]  # a part of a text, whose quotes end elsewhere


def _unescaped(literal: str) -> list[str]:
    try:
        return _words(tomllib.loads(f"text = {literal}")["text"])
    except _NO_TOML:
        return []


def _literal(token: str) -> str | None:
    try:
        value = ast.literal_eval(token)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, str) else None


def _table(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a table in tables; empty where there is none."""
    for name in names:
        inner = document.get(name)
        document = inner if isinstance(inner, dict) else {}
    return document
