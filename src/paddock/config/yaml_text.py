"""YAML text to a plain tree with the line of every key, and back.

Source  YAML 1.1 as OmegaConf reads it: `1e-6` is a number and a date is a string.
Law     `parse(dump(tree)).tree == tree`. A key that is given twice in one mapping is refused.
Errors  ConfigError with file, line and column.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from paddock.config.trees import KeyPath
from paddock.errors import ConfigError
from paddock.types import JsonObject

if TYPE_CHECKING:
    _BaseLoader = yaml.SafeLoader
else:
    _BaseLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NUMBER = re.compile(
    r"""[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+
    |[-+]?[0-9][0-9_]*\.[0-9_]*
    |[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN)""",
    re.VERBOSE,
)


class YamlDocument(NamedTuple):
    """A parsed file: its tree, and the 1-based line of each key."""

    tree: JsonObject
    lines: dict[KeyPath, int]


class _YamlLoader(_BaseLoader):
    pass


class _YamlDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> yaml.Node:
        # The other styles fold these as they fold line ends.
        odd = any(separator in data for separator in "\x85\u2028\u2029")
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if odd else None)


_YamlDumper.add_representer(str, _YamlDumper.represent_text)


def _use_house_scalars(cls: Any) -> None:
    cls.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag not in (_FLOAT, _TIMESTAMP)]
        for first, rules in cls.yaml_implicit_resolvers.items()
    }
    cls.add_implicit_resolver(_FLOAT, re.compile(rf"^(?:{_NUMBER.pattern})$", re.VERBOSE), list("-+0123456789."))


_use_house_scalars(_YamlLoader)
_use_house_scalars(_YamlDumper)


def read_document(path: Path, origin: str) -> YamlDocument:
    """Parse one file; `origin` names it in errors."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin}: can't be read: {error}", kind="config_unreadable") from error
    return parse(text, origin)


def parse(text: str, origin: str) -> YamlDocument:
    """Parse `text`; empty text is an empty mapping. `origin` names it in errors."""
    loader = _YamlLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return YamlDocument({}, {})
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{origin}: the top level must be a mapping of keys", kind="config_invalid")
        lines: dict[KeyPath, int] = {}
        _index(node, (), lines, set(), origin)
        return YamlDocument(loader.construct_document(node), lines)
    except yaml.YAMLError as error:
        position, why = _yaml_problem(error)
        raise ConfigError(f"{origin}{position}: no valid YAML: {why}", kind="config_unreadable") from error
    finally:
        loader.dispose()


def parse_value(text: str, origin: str) -> Any:
    """The value that `text` is in YAML; empty text is null."""
    loader = _YamlLoader(text)
    try:
        return loader.get_single_data()
    except yaml.YAMLError as error:
        why = _yaml_problem(error).why
        raise ConfigError(f"{origin}: no valid YAML value: {why}", kind="config_invalid") from error
    finally:
        loader.dispose()


def dump(tree: JsonObject) -> str:
    """`tree` as block YAML, keys in their order."""
    return yaml.dump(
        tree, Dumper=_YamlDumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1000
    )


def _index(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], seen: set[int], origin: str) -> None:
    """Note the line of every key; an aliased node is indexed where it was written."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _index(item, (*path, str(index)), lines, seen, origin)
    if not isinstance(node, yaml.MappingNode):
        return
    own: set[str] = set()
    for key, value in node.value:
        if key.tag == _MERGE:
            continue
        line = key.start_mark.line + 1
        name = key.value if isinstance(key, yaml.ScalarNode) else str(key.value)
        if name in own:
            raise ConfigError(f"{origin}:{line}: `{name}` is given twice in one mapping", kind="config_invalid")
        own.add(name)
        lines[*path, name] = line
        _index(value, (*path, name), lines, seen, origin)


class _YamlProblem(NamedTuple):
    position: str
    """`:line`, from 1; empty: not known."""
    why: str


def _yaml_problem(error: yaml.YAMLError) -> _YamlProblem:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return _YamlProblem("", " ".join(str(error).split()))
    mark, start = error.problem_mark, error.context_mark
    since = f" that begins in line {start.line + 1}" if start is not None and start.line != mark.line else ""
    context = f", {error.context}{since}" if error.context else ""
    return _YamlProblem(f":{mark.line + 1}", f"{error.problem} at column {mark.column + 1}{context}")
