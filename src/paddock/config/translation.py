"""Translates a source with NeMo-Gym's names to ours: wrappers, server types, implementations, keys, paths.

Source  `aliases.yaml`. A file has NeMo-Gym's names when its top level is `env: {nemo_gym: ...}`, or when a block or
        a config path in it has such a name. In a training recipe `env.nemo_gym` is the config; only interpolations
        may read its siblings.
Law     a file in our names comes out as it went in. Every change and every key that says nothing is a note.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.config.aliases import AliasTable, Implementation, KeyRule
from paddock.config.directives import DIRECTIVE_KEYS
from paddock.config.own_servers import SERVED, is_server_of_theirs, own_server_block
from paddock.config.problems import suggestion
from paddock.config.rules import TranslationReport, apply_rules, is_inert
from paddock.config.settings import KINDS, Note
from paddock.config.trees import (
    KeyPath,
    as_directive,
    copy_tree,
    dotted,
    map_strings,
    merge,
    rewrite_references,
    split,
)
from paddock.config.yaml_text import YamlDocument
from paddock.types import JsonObject


class TranslatedBlock(NamedTuple):
    """A block that was written with a name of NeMo-Gym's."""

    instance: str
    kind: str
    implementation: str
    """Our name of it."""
    written: str
    """The name of its implementation as it was written."""


class TranslatedSource(NamedTuple):
    """A source in our names."""

    tree: JsonObject
    recipe_keys: JsonObject
    """A recipe's other keys; empty when the source is no recipe."""
    nemo_gym: bool
    """Whether it was written with NeMo-Gym's names."""
    blocks: list[TranslatedBlock]


def is_recipe(tree: Mapping[str, Any]) -> bool:
    env = tree.get("env")
    return isinstance(env, Mapping) and "nemo_gym" in env


def has_nemo_gym_names(tree: Mapping[str, Any], table: AliasTable) -> bool:
    """Whether a block or a config path of `tree` has a name of NeMo-Gym's."""
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
    document: YamlDocument,
    table: AliasTable,
    report: TranslationReport,
    *,
    nemo_gym: bool = False,
    recipe: bool = False,
) -> TranslatedSource:
    """The source in our names. `nemo_gym`, `recipe`: what it adds to has NeMo-Gym's names, or is a recipe, and so it
    is, too."""
    work = _Translation(table, report)
    source = copy_tree(document.tree)
    if not (recipe or is_recipe(source)):
        return work.config(source, nemo_gym=nemo_gym or has_nemo_gym_names(source, table))
    env = source.pop("env", None)
    env = env if isinstance(env, dict) else {}
    body = env.pop("nemo_gym", None) or {}
    work.siblings(source, env)
    if not isinstance(body, dict):
        report.problem(("env", "nemo_gym"), "needs a mapping")
        body = {}
    report.prefix = ("env", "nemo_gym")
    return work.config(body, nemo_gym=True)._replace(recipe_keys={**source, "env": env})


class _Translation:
    def __init__(self, table: AliasTable, report: TranslationReport) -> None:
        self.table = table
        self.report = report
        self.blocks: list[TranslatedBlock] = []
        self.nemo_gym = False
        """Whether the source has NeMo-Gym's names."""

    def siblings(self, source: JsonObject, env: JsonObject) -> None:
        """Note the keys of a recipe that only the trainer reads."""
        for key, value in source.items():
            if isinstance(value, dict) and any(self.table.kind(below) in KINDS for below in value):
                self.report.problem((key,), "a server block of a recipe belongs under `env.nemo_gym`")
        if source:
            first = next(iter(source))
            note = Note(self.report.where((first,)), ", ".join(source), "trainer", "keys beside `env`")
            self.report.notes.append(note)
        for key, value in env.items():
            rule = self.table.env_keys.get(key)
            if rule is not None or isinstance(value, dict):
                self.report.note(("env", key), "trainer", (rule and rule.trainer) or "another environment")
            else:
                self.report.problem(("env", key), f"unknown key{suggestion(key, [*self.table.env_keys, 'nemo_gym'])}")

    def config(self, source: JsonObject, *, nemo_gym: bool) -> TranslatedSource:
        tree: JsonObject = {}
        self.nemo_gym = nemo_gym
        for key, value in source.items():
            rule = self.table.top_keys.get(key)
            if rule is not None:
                self.top_key(key, value, rule, nemo_gym=nemo_gym)
            elif isinstance(value, dict) and any(self.table.kind(below) in KINDS for below in value):
                tree[key] = self.instance(key, value)
            elif isinstance(value, dict) and value and set(value) <= set(self.table.inert_types):
                self.report.note((key,), "inert", self.table.inert_types[next(iter(value))])
            else:
                tree[key] = value
        tree = self.directive_paths(self.references(map_strings(tree, self.text)))
        return TranslatedSource(tree, {}, nemo_gym, self.blocks)

    def top_key(self, key: str, value: Any, rule: KeyRule, *, nemo_gym: bool) -> None:
        reason = rule.trainer or rule.inert or ""
        if not nemo_gym:
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
                names = {name: alias.to for name, alias in self.table.implementations.get(kind, {}).items()}
                out[written] = _mapped_names(block, names) if written == "_delete_key" else block
                continue
            alias = self.table.implementation(kind, written)
            if alias is None and is_server_of_theirs(kind, path[1], written, block, nemo_gym=self.nemo_gym):
                out[SERVED] = merge(out.get(SERVED, {}), own_server_block(kind, written, block))
                self.blocks.append(TranslatedBlock(path[0], kind, SERVED, written))
                self.report.note(
                    (*path, written), "mapped", f"`{dotted((path[0], kind, SERVED))}`, its keys as `config`"
                )
                continue
            if alias is None and path[1] == kind:
                out[written] = merge(out.get(written, {}), block)
                continue
            name = alias.to if alias else written
            out[name] = merge(out.get(name, {}), self.block((*path, written), kind, block, alias))
            self.blocks.append(TranslatedBlock(path[0], kind, name, written))
            differs = f"; {alias.differs}" if alias and alias.differs else ""
            self.report.note((*path, written), "mapped", f"`{dotted((path[0], kind, name))}`{differs}")
        return out

    def block(self, path: KeyPath, kind: str, block: Any, alias: Implementation | None) -> Any:
        implied = alias.set if alias else {}
        if block is None:
            return copy_tree(implied)
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
