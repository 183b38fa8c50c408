"""`load`: files, a mapping and overrides, composed into one config.

Order   files left to right, each after the files that its own `config_paths` name, then `extra`, then overrides: later
        wins. Mappings merge key by key, everything else replaces. A file that was loaded is not loaded again; one that
        comes to include itself is refused.
Law     each source is translated to our names before it is merged, so a recipe of theirs overrides a file of ours.
        A recipe's `defaults` come before it, as its `config_paths` do.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.config.aliases import AliasTable, alias_table
from paddock.config.config import Config
from paddock.config.environments import settle
from paddock.config.finding import not_found, places
from paddock.config.finishing import Composed, finish
from paddock.config.overrides import Override, parse_overrides
from paddock.config.problems import raise_all, suggestion
from paddock.config.reading import Document, read
from paddock.config.rules import Report
from paddock.config.settings import KINDS, Note
from paddock.config.translation import is_recipe, translate
from paddock.config.trees import KeyPath, delete_in_place, dotted, get_at, keys_of, merge, nested, walk
from paddock.errors import ConfigError
from paddock.types import JsonObject


def load(
    paths: Sequence[str | Path],
    overrides: Sequence[str] = (),
    *,
    extra: Mapping[str, Any] | None = None,
    strict: bool = False,
    cwd: str | Path | None = None,
    servers: Collection[str] | None = None,
    stand_ins: Mapping[str, str] | None = None,
) -> Config:
    """The config of `paths`, checked as far as it can be without the plugins and the environment.

    `extra` comes after the files. `strict` refuses NeMo-Gym's keys that say nothing here. `cwd` None: the process's.
    `servers`: the instances to be used; references of others may name nothing. None: all. `stand_ins`: files of ours
    by NeMo-Gym's, before those of the alias table: a trainer's policy is served otherwise than an evaluation's.
    """
    changes = parse_overrides(overrides)
    table = alias_table()
    loader = _Loader(table.model_copy(update={"paths": {**table.paths, **(stand_ins or {})}}), cwd)
    for path in [*paths, *_included(changes)]:
        loader.file(path, beside=None)
    if extra is not None:
        loader.source(Document(_plain(extra), {}), "extra", beside=None)
    loader.override([change for change in changes if change.path != ("config_paths",)])
    raise_all(loader.problems)
    if strict:
        raise_all(f"{note}; --strict refuses it" for note in loader.composed.notes if note.kind == "inert")
    return Config(finish(loader.composed, loader.table, servers))


def _plain(extra: Mapping[str, Any]) -> JsonObject:
    """A mapping as a plain tree; a trainer hands over its OmegaConf config."""
    if type(extra).__module__.partition(".")[0] != "omegaconf":
        return dict(extra)
    from omegaconf import OmegaConf

    tree: Any = OmegaConf.to_container(extra, resolve=False)
    return dict(tree)


def _included(changes: Sequence[Override]) -> list[str]:
    """The files that overrides name: `+config_paths=[a.yaml,b.yaml]`."""
    named = [change.value for change in changes if change.path == ("config_paths",) and not change.delete]
    return [path for value in named for path in _paths(value, "override")]


def _paths(value: Any, origin: str) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ConfigError(f"{origin}: `config_paths` must be a list of files, got {value!r}", kind="config_invalid")
    return paths


class _Loader:
    def __init__(self, table: AliasTable, cwd: str | Path | None) -> None:
        self.table = table
        self.cwd = cwd
        self.composed = Composed()
        self.problems: list[str] = []
        self.loaded: set[Path] = set()
        self.active: list[Path] = []
        self.recipe = False

    def file(self, path: str | Path, *, beside: Path | None, recipe: bool = False) -> None:
        """Load the file that `path` means, after the files that it names."""
        found = self.find(path, beside)
        key = found.resolve()
        if key in self.active:
            circle = " -> ".join(map(str, [*self.active[self.active.index(key) :], key]))
            raise ConfigError(f"config files include each other: {circle}", kind="config_invalid")
        if key in self.loaded:
            return
        self.loaded.add(key)
        self.active.append(key)
        origin = self.shown(found)
        self.source(read(found, origin), origin, beside=found.parent, recipe=recipe)
        self.active.pop()

    def find(self, path: str | Path, beside: Path | None) -> Path:
        """Their path is first looked for as it is, then as the file of ours that stands for it."""
        tried = places(path, beside=beside, cwd=self.cwd)
        alias = self.table.paths.get(str(path))
        if alias is not None:
            tried += places(alias, beside=beside, cwd=self.cwd)
        found = next((place for place in tried if place.is_file()), None)
        if found is None:
            raise not_found(path, tried)
        if alias is not None and found in places(alias, beside=beside, cwd=self.cwd):
            self.composed.notes.append(Note(self.shown(found), str(path), "mapped", f"`{alias}`"))
        return found

    def shown(self, path: Path) -> str:
        """A path as messages show it."""
        base = Path(self.cwd) if self.cwd is not None else Path.cwd()
        return str(path.relative_to(base) if path.is_relative_to(base) else path)

    def source(self, document: Document, origin: str, *, beside: Path | None, recipe: bool = False) -> None:
        """Add one source, after the files that it names."""
        tree = dict(document.tree)
        recipe = recipe or is_recipe(tree)
        self.recipe = self.recipe or recipe
        for parent in _paths(tree.pop("defaults"), origin) if recipe and tree.get("defaults") else ():
            self.file(parent, beside=beside, recipe=True)
        report = Report(origin, document.lines)
        out = translate(document._replace(tree=tree), self.table, report, recipe=recipe)
        for path in _paths(out.tree.pop("config_paths", None) or [], origin):
            self.file(path, beside=beside)
        self.remember(out.tree, document, origin)
        self.take(report, out.tree, out.aside, theirs=out.theirs)
        self.composed.blocks += out.blocks

    def remember(self, tree: JsonObject, document: Document, origin: str) -> None:
        """Note where each key of a translated source was given; for a mapping, where first."""
        lines = {self.table.key_path(path): f"{origin}:{line}" for path, line in document.lines.items()}
        origins = self.composed.origins
        for path, value in walk(tree):
            if path in lines and not (isinstance(value, dict) and path in origins):
                origins[path] = lines[path]
            elif len(path) == 1:
                origins.setdefault(path, origin)

    def take(self, report: Report, tree: JsonObject, aside: JsonObject, *, theirs: bool) -> None:
        """Merge a translated source."""
        composed = self.composed
        composed.tree = merge(composed.tree, tree)
        composed.aside = merge(composed.aside, aside)
        settle(composed.tree, composed.origins, self.table)
        composed.notes += report.notes
        self.problems += report.problems
        if theirs:
            composed.theirs |= set(tree)
            composed.any_theirs = True

    def override(self, changes: Sequence[Override]) -> None:
        """Apply overrides in order. A key beside `env` in a recipe stays aside."""
        composed = self.composed
        for change in changes:
            if change.delete:
                self.delete(change)
            elif self.recipe and change.path[0] in composed.aside and change.path[:2] != ("env", "nemo_gym"):
                composed.aside = merge(composed.aside, nested(change.path, change.value))
            else:
                self.check_instance(change)
                report = Report(change.origin, {})
                document = Document(nested(change.path, change.value), {})
                out = translate(document, self.table, report, theirs=composed.any_theirs)
                composed.origins[self.table.key_path(change.path)] = change.origin
                self.take(report, out.tree, out.aside, theirs=out.theirs)
                composed.blocks += out.blocks

    def check_instance(self, change: Override) -> None:
        """A slip in an instance's name must not make a new instance."""
        path = self.table.key_path(change.path)
        if len(path) < 2 or path[1] not in KINDS or path[0] in self.composed.tree or change.adds:
            return
        hint = suggestion(path[0], self.composed.tree, label="there is")
        self.problems.append(f"{change.origin}: no instance `{path[0]}`{hint}; write `+` in front to add one")

    def delete(self, change: Override) -> None:
        path: KeyPath = self.table.key_path(change.path)
        try:
            delete_in_place(self.composed.tree, path)
        except KeyError as error:
            at = _depth(self.composed.tree, path)
            have = keys_of(get_at(self.composed.tree, path[:at]))
            self.problems.append(f"{change.origin}: no key `{dotted(path)}`{suggestion(str(error.args[0]), have)}")


def _depth(tree: Any, path: KeyPath) -> int:
    """How many keys of `path` exist."""
    for end in range(1, len(path) + 1):
        try:
            get_at(tree, path[:end])
        except KeyError:
            return end - 1
    return len(path)
