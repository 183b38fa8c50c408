"""`load` composes files, a mapping and overrides into one config.

Order   files left to right, each after the files that its own `config_paths` name, then `extra`, then overrides: later
        wins. Mappings merge key by key, everything else replaces. A file that was loaded is not loaded again; one that
        comes to include itself is refused.
Law     each source is translated to our names before it is merged, so a recipe of NeMo-Gym overrides a file of ours.
        A recipe's `defaults` come before it, as its `config_paths` do.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.config.aliases import AliasTable, alias_table
from paddock.config.config import Config
from paddock.config.environments import move_environment_keys
from paddock.config.files import nemo_gym_paths, not_found, search_paths
from paddock.config.final import Composition, finalize
from paddock.config.overrides import Override, parse_overrides
from paddock.config.problems import raise_all, suggestion
from paddock.config.rules import TranslationReport
from paddock.config.settings import KINDS, Note
from paddock.config.translation import is_recipe, translate
from paddock.config.trees import KeyPath, delete_in_place, dotted, get_at, keys_of, merge, nested, walk
from paddock.config.yaml_text import YamlDocument, read_document
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
    `servers`: the instances to be used; references of others are not checked. None: all. `stand_ins`: files of ours by
    NeMo-Gym's path, which win over the alias table: a trainer serves its policy in another way than an evaluation.
    """
    changes = parse_overrides(overrides)
    table = alias_table()
    loader = _SourceLoader(table.model_copy(update={"paths": {**table.paths, **(stand_ins or {})}}), cwd)
    for path in [*paths, *_override_files(changes)]:
        loader.file(path, beside=None)
    if extra is not None:
        loader.source(YamlDocument(_plain(extra), {}), "extra", beside=None)
    loader.override([change for change in changes if change.path != ("config_paths",)])
    raise_all(loader.problems)
    if strict:
        raise_all(f"{note}; --strict refuses it" for note in loader.composed.notes if note.kind == "inert")
    return Config(finalize(loader.composed, loader.table, servers))


def _plain(extra: Mapping[str, Any]) -> JsonObject:
    """A mapping as a plain tree; a trainer hands over its OmegaConf config."""
    if type(extra).__module__.partition(".")[0] != "omegaconf":
        return dict(extra)
    from omegaconf import OmegaConf

    tree: Any = OmegaConf.to_container(extra, resolve=False)
    return dict(tree)


def _override_files(changes: Sequence[Override]) -> list[str]:
    """The files that overrides name: `+config_paths=[a.yaml,b.yaml]`."""
    named = [change.value for change in changes if change.path == ("config_paths",) and not change.delete]
    return [path for value in named for path in _paths(value, "override")]


def _paths(value: Any, origin: str) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ConfigError(f"{origin}: `config_paths` must be a list of files, got {value!r}", kind="config_invalid")
    return paths


class _SourceLoader:
    """Collects sources into a composition, in the order in which they are loaded."""

    def __init__(self, table: AliasTable, cwd: str | Path | None) -> None:
        self.table = table
        self.cwd = cwd
        self.composed = Composition()
        self.problems: list[str] = []
        self.loaded: set[Path] = set()
        self.active: list[Path] = []
        self.recipe = False

    def file(self, path: str | Path, *, beside: Path | None, recipe: bool = False) -> None:
        """Load the file that `path` means, after the files that it names."""
        target = self.find(path, beside)
        key = target.resolve()
        if key in self.active:
            circle = " -> ".join(map(str, [*self.active[self.active.index(key) :], key]))
            raise ConfigError(f"config files include each other: {circle}", kind="config_invalid")
        if key in self.loaded:
            return
        self.loaded.add(key)
        self.active.append(key)
        origin = self.display_path(target)
        self.source(read_document(target, origin), origin, beside=target.parent, recipe=recipe)
        self.active.pop()

    def find(self, path: str | Path, beside: Path | None) -> Path:
        """The file that `path` means. A path of NeMo-Gym's is tried as it is, then as our file that replaces it."""
        candidates = search_paths(path, beside=beside, cwd=self.cwd)
        alias = self.table.paths.get(str(path))
        if alias is not None:
            candidates += search_paths(alias, beside=beside, cwd=self.cwd)
        candidates += nemo_gym_paths(path)
        target = next((candidate for candidate in candidates if candidate.is_file()), None)
        if target is None:
            raise not_found(path, candidates)
        if alias is not None and target in search_paths(alias, beside=beside, cwd=self.cwd):
            self.composed.notes.append(Note(self.display_path(target), str(path), "mapped", f"`{alias}`"))
        return target

    def display_path(self, path: Path) -> str:
        """A path as messages show it."""
        base = Path(self.cwd) if self.cwd is not None else Path.cwd()
        return str(path.relative_to(base) if path.is_relative_to(base) else path)

    def source(self, document: YamlDocument, origin: str, *, beside: Path | None, recipe: bool = False) -> None:
        """Add one source, after the files that it names."""
        tree = dict(document.tree)
        recipe = recipe or is_recipe(tree)
        self.recipe = self.recipe or recipe
        for parent in _paths(tree.pop("defaults"), origin) if recipe and tree.get("defaults") else ():
            self.file(parent, beside=beside, recipe=True)
        report = TranslationReport(origin, document.lines)
        out = translate(document._replace(tree=tree), self.table, report, recipe=recipe)
        for path in _paths(out.tree.pop("config_paths", None) or [], origin):
            self.file(path, beside=beside)
        self.note_origins(out.tree, document, origin)
        self.merge_source(report, out.tree, out.recipe_keys, nemo_gym=out.nemo_gym)
        self.composed.blocks += out.blocks

    def note_origins(self, tree: JsonObject, document: YamlDocument, origin: str) -> None:
        """Note where each key of a translated source was given; for a mapping, where first."""
        lines = {self.table.key_path(path): f"{origin}:{line}" for path, line in document.lines.items()}
        origins = self.composed.origins
        for path, value in walk(tree):
            if path in lines and not (isinstance(value, dict) and path in origins):
                origins[path] = lines[path]
            elif len(path) == 1:
                origins.setdefault(path, origin)

    def merge_source(
        self, report: TranslationReport, tree: JsonObject, recipe_keys: JsonObject, *, nemo_gym: bool
    ) -> None:
        """Merge a translated source; `nemo_gym`: it had NeMo-Gym's names."""
        composed = self.composed
        composed.tree = merge(composed.tree, tree)
        composed.recipe_keys = merge(composed.recipe_keys, recipe_keys)
        move_environment_keys(composed.tree, composed.origins, self.table)
        composed.notes += report.notes
        self.problems += report.problems
        if nemo_gym:
            composed.nemo_gym_keys |= set(tree)
            composed.has_nemo_gym_names = True

    def override(self, changes: Sequence[Override]) -> None:
        """Apply overrides in order. A key beside `env` in a recipe stays with the recipe's keys."""
        composed = self.composed
        for change in changes:
            if change.delete:
                self.delete(change)
            elif self.recipe and change.path[0] in composed.recipe_keys and change.path[:2] != ("env", "nemo_gym"):
                composed.recipe_keys = merge(composed.recipe_keys, nested(change.path, change.value))
            else:
                self.check_instance(change)
                report = TranslationReport(change.origin, {})
                document = YamlDocument(nested(change.path, change.value), {})
                out = translate(document, self.table, report, nemo_gym=composed.has_nemo_gym_names)
                composed.origins[self.table.key_path(change.path)] = change.origin
                self.merge_source(report, out.tree, out.recipe_keys, nemo_gym=out.nemo_gym)
                composed.blocks += out.blocks

    def check_instance(self, change: Override) -> None:
        """A typo in an instance's name must not make a new instance."""
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
    """How many keys of `path` exist, from its start."""
    for end in range(1, len(path) + 1):
        try:
            get_at(tree, path[:end])
        except KeyError:
            return end - 1
    return len(path)
