"""Interpolations, resolved only when a value is asked for: `${a.b}`, `${oc.env:VAR}`, `${oc.env:VAR,default}`, relative
paths, `???`.

Law     an environment variable is read when a value is asked for, every time, and what was read is never kept.
Errors  ConfigError that lists every value below the asked one that can't be resolved: its key path, how it is written,
        and the variable or key that is missing. What was read is never in it.
"""

import os
import re
from typing import TYPE_CHECKING, Any

from paddock.config.problems import nearest, raise_all
from paddock.config.settings import RunSettings
from paddock.config.trees import REFERENCE, KeyPath, dotted, get_at, keys_of
from paddock.errors import ConfigError
from paddock.types import JsonObject

if TYPE_CHECKING:
    from omegaconf import DictConfig

_ENV = re.compile(r"Environment variable '([^']*)' not found")
_KEY = re.compile(r"Interpolation key '([^']*)' not found")
_MISSING = "???"
_VARIABLE = re.compile(r"\$\{\s*oc\.env:\s*([A-Za-z_]\w*)")


def variables_read(text: str) -> dict[str, str]:
    """The variables that a config reads and that are set, with their values."""
    return {name: os.environ[name] for name in _VARIABLE.findall(text) if name in os.environ}


class Resolver:
    """Resolves parts of one unresolved tree. OmegaConf is imported by the first use."""

    def __init__(self, tree: JsonObject) -> None:
        self.tree = tree
        self._config: DictConfig | None = None

    @property
    def config(self) -> "DictConfig":
        if self._config is None:
            from omegaconf import OmegaConf
            from omegaconf.errors import OmegaConfBaseException

            try:
                self._config = OmegaConf.create(self.tree)
            except OmegaConfBaseException as error:
                where = getattr(error, "full_key", None) or "config"
                raise ConfigError(f"`{where}`: {_first_line(error)}", kind="interpolation") from error
        return self._config

    def check(self) -> None:
        """ConfigError where an interpolation is not well-formed."""
        self.config  # noqa: B018 - parses every string of the tree

    def resolve(self, path: KeyPath) -> Any:
        """The value at `path`, plain and resolved; ConfigError with every problem in it."""
        problems: list[str] = []
        value = self.collect(path, problems)
        raise_all(problems, kind="unresolved")
        return value

    def collect(self, path: KeyPath, problems: list[str]) -> Any:
        """As `resolve`, but problems are added to the list; the value is then incomplete."""
        node: Any = self.config
        for key in path[:-1]:
            node = node[int(key) if isinstance(node, list) else key]
        return self._item(node, path[-1], path, problems) if path else self._plain(node, path, problems)

    def _item(self, parent: Any, key: Any, path: KeyPath, problems: list[str]) -> Any:
        from omegaconf.errors import OmegaConfBaseException

        try:
            value = parent[key]
        except OmegaConfBaseException as error:
            problems.append(self._explain(path, error))
            return None
        return self._plain(value, path, problems)

    def _plain(self, node: Any, path: KeyPath, problems: list[str]) -> Any:
        from omegaconf import DictConfig, ListConfig

        if isinstance(node, DictConfig):
            return {str(key): self._item(node, key, (*path, str(key)), problems) for key in node}
        if isinstance(node, ListConfig):
            return [self._item(node, index, (*path, str(index)), problems) for index in range(len(node))]
        return node

    def _explain(self, path: KeyPath, error: Exception) -> str:
        text = str(error)
        written = self._written(path)
        what = f"`{dotted(path)}`" + (f" (`{written}`)" if written and written != _MISSING else "")
        if variable := _ENV.search(text):
            return f"{what}: environment variable {variable[1]} is not set"
        if key := _KEY.search(text):
            return f"{what}: nothing sets `{key[1]}`{self._hint(key[1])}"
        if _is_missing(error):
            unset = self._source_of_missing(path)
            return f"{what}: {f'`{dotted(unset)}` ' if unset != path else ''}is mandatory (`???`) and nothing sets it"
        return f"{what}: {_first_line(error)}"

    def _written(self, path: KeyPath) -> str | None:
        try:
            value = get_at(self.tree, path)
        except KeyError:
            return None
        return value if isinstance(value, str) else None

    def _hint(self, key: str) -> str:
        if key in RunSettings.model_fields:
            return f"; give it in a file, or on the command line as `{key}=...`"
        close = nearest(key, (f"{name}" for name in keys_of(self.tree)))
        return f"; nearest: `{close}`" if close else ""

    def _source_of_missing(self, path: KeyPath) -> KeyPath:
        """Follow plain interpolations from `path` to the `???`."""
        for _ in range(100):
            written = self._written(path) or ""
            reference = REFERENCE.search(written)
            if reference is None:
                return path
            path = tuple(reference[1].split("."))
        return path


def resolve_text(text: str) -> str:
    """A string that reads the environment only, resolved now; ConfigError where it reads anything else."""
    return str(Resolver({"value": text}).resolve(("value",)))


def _is_missing(error: Exception) -> bool:
    from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue

    return isinstance(error, InterpolationToMissingValueError | MissingMandatoryValue)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
