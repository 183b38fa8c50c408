"""One source in NeMo-Gym's names, given ours: wrappers, server types, implementations, keys, paths.

Source  `aliases.yaml`. A file is theirs when its top level is `env: {nemo_gym: ...}`, or a block in it, or a config
        path in it, has a name of theirs. In a training recipe `env.nemo_gym` is the config; its siblings are kept
        aside, to be read by interpolations only.
Law     a file in our names comes out as it went in. Every change and every key that says nothing is a note.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.config.aliases import AliasTable, Implementation, KeyRule
from paddock.config.directives import DIRECTIVE_KEYS
from paddock.config.problems import suggestion
from paddock.config.reading import Document
from paddock.config.rules import Report, apply_rules, is_inert
from paddock.config.settings import KINDS, Note
from paddock.config.trees import (
    KeyPath,
    as_directive,
    copied,
    dotted,
    map_strings,
    merge,
    rewrite_references,
    split,
)
from paddock.types import JsonObject


class Block(NamedTuple):
    """A block that was written with a name of theirs."""

    instance: str
    kind: str
    implementation: str
    """Ours."""
    written: str
    """The implementation as it was written."""


class Translated(NamedTuple):
    """A source in our names."""

    tree: JsonObject
    aside: JsonObject
    """A recipe's other keys; empty when the source is no recipe."""
    theirs: bool
    blocks: list[Block]


def is_recipe(tree: Mapping[str, Any]) -> bool:
    env = tree.get("env")
    return isinstance(env, Mapping) and "nemo_gym" in env


def has_their_names(tree: Mapping[str, Any], table: AliasTable) -> bool:
    """Whether a block or a config path of `tree` has a name of theirs."""
    paths = tree.get("config_paths")
    if isinstance(paths, list) and any(isinstance(path, str) and path in table.paths for path in paths):
        return True
    for value in tree.values():
        for key, below in value.items() if isinstance(value, Mapping) else ():
            kind = table.kind(key)
            named = below if isinstance(below, Mapping) else {}
            if key in table.server_types or any(table.implementation(kind, name) for name in named):
                return True
    return False


def translate(
    document: Document, table: AliasTable, report: Report, *, theirs: bool = False, recipe: bool = False
) -> Translated:
    """`theirs`, `recipe`: the source is so whatever its own names are, because of what it adds to."""
    work = _Translation(table, report)
    raw = copied(document.tree)
    if not (recipe or is_recipe(raw)):
        return work.config(raw, theirs=theirs or has_their_names(raw, table))
    env = raw.pop("env", None)
    env = env if isinstance(env, dict) else {}
    body = env.pop("nemo_gym", None) or {}
    work.siblings(raw, env)
    if not isinstance(body, dict):
        report.problem(("env", "nemo_gym"), "needs a mapping")
        body = {}
    report.prefix = ("env", "nemo_gym")
    return work.config(body, theirs=True)._replace(aside={**raw, "env": env})


class _Translation:
    def __init__(self, table: AliasTable, report: Report) -> None:
        self.table = table
        self.report = report
        self.blocks: list[Block] = []

    def siblings(self, raw: JsonObject, env: JsonObject) -> None:
        """Note what the environment side does not read of a recipe."""
        for key, value in raw.items():
            if isinstance(value, dict) and any(self.table.kind(below) in KINDS for below in value):
                self.report.problem((key,), "a server block of a recipe belongs under `env.nemo_gym`")
        if raw:
            first = next(iter(raw))
            note = Note(self.report.where((first,)), ", ".join(raw), "trainer", "keys beside `env`")
            self.report.notes.append(note)
        for key, value in env.items():
            rule = self.table.env_keys.get(key)
            if rule is not None or isinstance(value, dict):
                self.report.note(("env", key), "trainer", (rule and rule.trainer) or "another environment")
            else:
                self.report.problem(("env", key), f"unknown key{suggestion(key, [*self.table.env_keys, 'nemo_gym'])}")

    def config(self, raw: JsonObject, *, theirs: bool) -> Translated:
        tree: JsonObject = {}
        for key, value in raw.items():
            rule = self.table.top_keys.get(key)
            if rule is not None:
                self.top_key(key, value, rule, theirs=theirs)
            elif isinstance(value, dict) and any(self.table.kind(below) in KINDS for below in value):
                tree[key] = self.instance(key, value)
            elif isinstance(value, dict) and value and set(value) <= set(self.table.inert_types):
                self.report.note((key,), "inert", self.table.inert_types[next(iter(value))])
            else:
                tree[key] = value
        tree = self.directive_paths(self.references(map_strings(tree, self.text)))
        return Translated(tree, {}, theirs, self.blocks)

    def top_key(self, key: str, value: Any, rule: KeyRule, *, theirs: bool) -> None:
        reason = rule.trainer or rule.inert or ""
        if not theirs:
            self.report.problem((key,), f"a NeMo-Gym key ({reason}); accepted only in a file with NeMo-Gym's names")
        elif rule.trainer:
            self.report.note((key,), "trainer", reason)
        elif is_inert(rule, value):
            self.report.note((key,), "inert", reason)
        else:
            self.report.problem((key,), f"this value has no counterpart: {reason}; remove the key")

    def instance(self, name: str, value: JsonObject) -> JsonObject:
        out: JsonObject = {}
        for key, below in value.items():
            kind = self.table.kind(key)
            if key == "_delete_key":
                out[key] = _mapped_names(below, self.table.server_types)
            elif kind in KINDS and isinstance(below, dict):
                out[kind] = merge(out.get(kind, {}), self.implementations((name, key), kind, below))
            else:
                out[kind if kind in KINDS else key] = below
        return out

    def implementations(self, path: KeyPath, kind: str, value: JsonObject) -> JsonObject:
        out: JsonObject = {}
        for written, block in value.items():
            if written in DIRECTIVE_KEYS:
                names = {name: found.to for name, found in self.table.implementations.get(kind, {}).items()}
                out[written] = _mapped_names(block, names) if written == "_delete_key" else block
                continue
            found = self.table.implementation(kind, written)
            if found is None and path[1] == kind:
                out[written] = merge(out.get(written, {}), block)
                continue
            name = found.to if found else written
            out[name] = merge(out.get(name, {}), self.block((*path, written), kind, block, found))
            self.blocks.append(Block(path[0], kind, name, written))
            differs = f"; {found.differs}" if found and found.differs else ""
            self.report.note((*path, written), "mapped", f"`{dotted((path[0], kind, name))}`{differs}")
        return out

    def block(self, path: KeyPath, kind: str, block: Any, found: Implementation | None) -> Any:
        implied = found.set if found else {}
        if block is None:
            return copied(implied)
        if not isinstance(block, dict):
            return block
        own = map_strings(block, lambda text: self.table.paths.get(text, text))
        return merge(implied, apply_rules(own, self.table.rules(kind, path[2]), path, self.report))

    def text(self, text: str) -> str:
        """One string value with the paths inside it in our names."""
        directive = as_directive(text)
        if directive is not None:
            return "${" + f"{directive.verb}:{dotted(self.table.key_path(split(directive.path)))}" + "}"
        return rewrite_references(text, self.table.key_path)

    def references(self, node: Any) -> Any:
        """The server type of every `{type, name}` in our names."""
        if isinstance(node, list):
            return [self.references(item) for item in node]
        if not isinstance(node, dict):
            return node
        if set(node) == {"type", "name"} and isinstance(node["type"], str):
            return {**node, "type": self.table.kind(node["type"])}
        return {key: self.references(value) for key, value in node.items()}

    def directive_paths(self, node: Any) -> Any:
        """The path of every `_copy` and `_inherit_from` in our names."""
        if isinstance(node, list):
            return [self.directive_paths(item) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: dotted(self.table.key_path(split(value)))
            if key in ("_copy", "_inherit_from") and isinstance(value, str)
            else self.directive_paths(value)
            for key, value in node.items()
        }


def _mapped_names(value: Any, names: Mapping[str, str]) -> Any:
    """The keys that a `_delete_key` names, in our names."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return value
    return [names.get(item.strip(), item.strip()) for item in items]
