"""Applies the key rules of the alias table to one block.

Law     a key with a rule becomes what the rule says; a key without one keeps its name. Notes name keys, never values.
Errors  problems go to the report: a value that a rule does not cover, two keys that say different things.
"""

from collections.abc import Mapping
from typing import Any, Literal

from paddock.config.aliases import HOLDER, KeyRule, ValueRule
from paddock.config.interpolation import resolve_text
from paddock.config.problems import suggestion
from paddock.config.settings import Note
from paddock.config.trees import KeyPath, clash, copy_tree, dotted, merge, nested, split
from paddock.errors import ConfigError
from paddock.types import JsonObject


class TranslationReport:
    """Notes and problems of translating one source. Paths are those of the source as it was written."""

    def __init__(self, origin: str, lines: Mapping[KeyPath, int]) -> None:
        self.origin = origin
        self.lines = lines
        self.prefix: KeyPath = ()
        """Where the config is in the source: `env.nemo_gym` in a recipe."""
        self.notes: list[Note] = []
        self.problems: list[str] = []

    def where(self, path: KeyPath) -> str:
        """`file:line` of the key, or of the nearest one above it that has a line."""
        full = (*self.prefix, *path)
        line = next((self.lines[full[:end]] for end in range(len(full), 0, -1) if full[:end] in self.lines), None)
        return f"{self.origin}:{line}" if line else self.origin

    def note(self, path: KeyPath, kind: Literal["mapped", "inert", "trainer"], text: str) -> None:
        self.notes.append(Note(self.where(path), dotted((*self.prefix, *path)), kind, text))

    def problem(self, path: KeyPath, text: str) -> None:
        self.problems.append(f"{self.where(path)}: `{dotted((*self.prefix, *path))}`: {text}")


def is_inert(rule: KeyRule, value: Any) -> bool:
    """Whether the rule says that this value has no effect here."""
    return rule.inert is not None and (rule.only is None or any(_same(accepted, value) for accepted in rule.only))


def apply_rules(
    block: JsonObject, rules: Mapping[str, KeyRule], path: KeyPath, report: TranslationReport
) -> JsonObject:
    """The block with our keys."""
    out: JsonObject = {key: copy_tree(value) for key, value in block.items() if key not in rules}
    for key, value in block.items():
        rule = rules.get(key)
        if key == "_delete_key" and isinstance(value, str | list):
            out[key] = _deleted_keys(value, rules)
        if rule is None:
            continue
        where = (*path, key)
        fields = _apply(rule, key, value, where, report)
        differs = clash(out, fields)
        if differs is not None:
            report.problem(where, f"`{dotted(differs)}` is given too, and differs; keep one of the two")
        out = merge(out, fields)
    return out


def _apply(rule: KeyRule, key: str, value: Any, where: KeyPath, report: TranslationReport) -> Any:
    """Our fields for one key of NeMo-Gym's."""
    if rule.here is not None:
        return _moved_value(rule, key, value, where, report)
    if rule.items is not None:
        return {key: _apply_to_items(rule.items, value, where, report)}
    plain = _resolved_value(value)
    if rule.values is not None:
        case = next((case for case in rule.values if _same(case.when, plain)), None)
        if case is None:
            report.problem(where, _unmatched_text(rule.values, plain))
            return {}
        report.note(where, "mapped", ", ".join(f"`{name}`" for name in case.set) or "its default")
        return copy_tree(case.set)
    if rule.trainer is not None:
        report.note(where, "trainer", rule.trainer)
    elif is_inert(rule, plain):
        report.note(where, "inert", rule.inert or "")
    else:
        accepted = ", ".join("null" if item is None else str(item).lower() for item in rule.only or [])
        report.problem(where, f"this value has no counterpart: {rule.inert}; accepted: {accepted}")
    return {}


def _moved_value(rule: KeyRule, key: str, value: Any, where: KeyPath, report: TranslationReport) -> Any:
    """The value under our key, or under both of ours."""
    if rule.to != key or rule.environment is not None:
        report.note(where, "mapped", rule.here or "")
    own = nested(split(rule.to), copy_tree(value)) if rule.to is not None else {}
    other = nested((HOLDER, *split(rule.environment)), copy_tree(value)) if rule.environment is not None else {}
    return merge(own, other)


def _unmatched_text(cases: list[ValueRule], value: Any) -> str:
    options = [case.when if isinstance(case.when, str) else str(case.when).lower() for case in cases]
    if isinstance(value, str) and all(isinstance(case.when, str) for case in cases):
        return f"there is no `{value}` here{suggestion(value, options)}"
    return f"needs one of: {', '.join(options)}"


def _apply_to_items(rules: Mapping[str, KeyRule], value: Any, where: KeyPath, report: TranslationReport) -> Any:
    if not isinstance(value, list):
        return value
    return [
        apply_rules(item, rules, (*where, str(index)), report) if isinstance(item, dict) else item
        for index, item in enumerate(value)
    ]


def _resolved_value(value: Any) -> Any:
    """A value as a rule reads it: interpolations of the environment are resolved."""
    if not isinstance(value, str) or "${" not in value:
        return value
    try:
        return resolve_text(value)
    except ConfigError:
        return value


def _same(expected: Any, value: Any) -> bool:
    """Equal and of one type; a boolean read from the environment is text."""
    if isinstance(expected, bool) and isinstance(value, str):
        return value.strip().lower() == str(expected).lower()
    return type(expected) is type(value) and bool(expected == value)


def _deleted_keys(value: Any, rules: Mapping[str, KeyRule]) -> list[Any]:
    """Our keys for those that a `_delete_key` in a block with NeMo-Gym's names lists; inert ones are gone already."""
    names = value.split(",") if isinstance(value, str) else value
    return [ours for name in names for ours in (_our_names(name.strip(), rules) if isinstance(name, str) else [name])]


def _our_names(name: str, rules: Mapping[str, KeyRule]) -> list[str]:
    rule = rules.get(name)
    if rule is None or rule.items is not None:
        return [name]
    if rule.values is not None:
        return sorted({key for case in rule.values for key in case.set})
    return [rule.to] if rule.to is not None else []  # of its environment, keys are deleted there
