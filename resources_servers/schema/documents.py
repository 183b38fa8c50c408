"""Reads a text as exactly one document of a format, as the values that JSON has.

Law     nothing before or after the document, no key twice, no number that JSON has not, no reference (aliases of YAML,
        entities of XML): a text says one thing, and its values are no larger than it.
Bounds  `MAX_DEPTH` levels; all readers are linear in the text within it.
Errors  DocumentError, for whatever else there is in the text: it is the policy's.
"""

import csv
import io
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Literal
from xml.parsers import expat

import orjson
import regex
import yaml

Format = Literal["json", "yaml", "xml", "toml", "csv"]
MAX_DEPTH = 64
"""Levels of objects and lists within each other."""
MAX_KEY_PARTS = 64
"""Parts of a dotted key of TOML, whose reader takes the square of their number."""
FENCE = "```"
_WORD = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = regex.compile(rf"(?<![\w-])(?:{_WORD}[ \t]*\.[ \t]*){{{MAX_KEY_PARTS}}}", regex.ASCII)


class DocumentError(ValueError):
    """The text is not one document; the message says why."""


def read_document(text: str, form: Format) -> Any:
    """Read a text. Raises DocumentError."""
    try:
        value = _READERS[form](text)
    except (ValueError, RecursionError, yaml.YAMLError, expat.ExpatError, csv.Error) as error:
        raise DocumentError(f"{type(error).__name__}: {str(error)[:200]}") from error
    _require_json(value)
    return value


def without_fence(text: str) -> str:
    """Return what stands in the one Markdown fence that the whole text is, else the text."""
    opening, newline, rest = text.strip().partition("\n")
    inner = rest.removesuffix(FENCE)
    whole = bool(newline) and opening.startswith(FENCE) and len(inner) < len(rest) and FENCE not in inner
    return inner if whole and "`" not in opening.removeprefix(FENCE) else text


def read_json(text: str) -> Any:
    """Read JSON as RFC 8259 has it. Raises ValueError."""
    _require_json(orjson.loads(text))
    return json.loads(text, object_pairs_hook=_pairs)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DocumentError("a key stands twice in one object")
    return found


def _read_yaml(text: str) -> Any:
    # The composer of the C library is recursive without a bound: the events are counted first.
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise DocumentError("an alias refers to another part of the document")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            _require_depth(depth)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    loader = yaml.CSafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _require_single_keys(node)
        try:
            return loader.construct_document(node)
        except (LookupError, AttributeError) as error:  # of its readers of `!!int ""`, `!!bool x`, `!!timestamp x`
            raise DocumentError("a tag that the text behind it does not fit") from error
    finally:
        loader.dispose()


def _require_single_keys(root: yaml.Node) -> None:
    nodes: list[yaml.Node] = [root]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(keys):
                raise DocumentError("a key stands twice in one mapping")
            nodes += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value


def _read_toml(text: str) -> Any:
    if _LONG_KEY.search(text):
        raise DocumentError(f"a key of more than {MAX_KEY_PARTS} parts")
    return tomllib.loads(text)


def _read_csv(text: str) -> Any:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    names = reader.fieldnames or []
    if len(set(names)) < len(names):
        raise DocumentError("a column stands twice in the head")
    return list(reader)


class _XmlReader:
    """Builds values as `xmltodict` does: `@name` for attributes, `#text` beside them, lists of what is repeated."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self._open: list[tuple[dict[str, Any], list[str]]] = []
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        self.parser = parser

    def _doctype(self, *_: Any) -> None:
        raise DocumentError("a document type is declared")

    def _start(self, _name: str, attributes: dict[str, str]) -> None:
        _require_depth(len(self._open) + 1)
        self._open.append(({f"@{key}": value for key, value in attributes.items()}, []))

    def _text(self, data: str) -> None:
        self._open[-1][1].append(data)

    def _end(self, name: str) -> None:
        fields, texts = self._open.pop()
        text = "".join(texts).strip()
        value: Any = {**fields, "#text": text} if fields and text else fields or text or None
        parent = self._open[-1][0] if self._open else self.root
        if name not in parent:
            parent[name] = value
        elif isinstance(parent[name], list):
            parent[name].append(value)
        else:
            parent[name] = [parent[name], value]


def _read_xml(text: str) -> Any:
    reader = _XmlReader()
    reader.parser.Parse(text.encode(), True)  # noqa: FBT003 - it takes no names
    return reader.root


_READERS: Mapping[Format, Callable[[str], Any]] = {
    "json": read_json,
    "yaml": _read_yaml,
    "xml": _read_xml,
    "toml": _read_toml,
    "csv": _read_csv,
}


def _require_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise DocumentError(f"more than {MAX_DEPTH} levels")


def _require_json(root: Any) -> None:
    """Raise DocumentError for keys that are no strings, for numbers that are not finite, and for too many levels."""
    level, depth = [root], 0
    while level:
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                if not all(isinstance(key, str) for key in value):
                    raise DocumentError("a key is no string")
                inner += value.values()
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, float) and not math.isfinite(value):
                raise DocumentError("a number is not finite")
        depth += bool(inner)
        _require_depth(depth)
        level = inner
