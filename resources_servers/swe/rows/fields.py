"""Readers of the fields of a row: each says which key was wrong and what would be right.

Errors  RowError, kind `task_invalid`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from paddock.errors import RowError, describe
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox.images import Recipe
from paddock.sandbox.images.names import Dataset, image_name
from paddock.types import JsonObject, patch_from_text

_ENV = re.compile(r"^ENV\s+(\w+)(?:=|\s+)(.*)$", re.MULTILINE)
NETWORKS = get_args(SweInstance.model_fields["network"].annotation)


def field_error(key: str, problem: str) -> RowError:
    """Make the error of a key."""
    return RowError(f"{key}: {problem}", kind="task_invalid", stage="seed")


def text(row: Mapping[str, Any], key: str) -> str:
    """Read a string that must be there."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        given = "missing" if value is None else f"needs a non-empty string, got {_short(value)}"
        raise field_error(key, given)
    return value


def optional_text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise field_error(key, f"needs a string, got {_short(value)}")
    return value


def patch(row: Mapping[str, Any], key: str) -> bytes:
    """Read a patch that must be there, as its bytes."""
    return _bytes(key, text(row, key))


def optional_patch(row: Mapping[str, Any], key: str) -> bytes:
    value = optional_text(row, key)
    return b"" if value is None else _bytes(key, value)


def names(row: Mapping[str, Any], key: str) -> list[str]:
    """Read a list of test ids, given as itself or as JSON text."""
    value = decoded(row, key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise field_error(key, f"needs a list of strings, or a string that holds it as JSON, got {_short(value)}")
    return value


def decoded(row: Mapping[str, Any], key: str) -> Any:
    """Read a value that published rows give as JSON text, or as itself."""
    value = row.get(key)
    if value is None:
        raise field_error(key, "missing")
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise field_error(key, f"not JSON: {error}") from error


def obj(row: Mapping[str, Any], key: str) -> JsonObject:
    """Read a JSON object, or a string that holds one."""
    value = decoded(row, key)
    if not isinstance(value, dict):
        raise field_error(key, f"needs a JSON object, got {_short(value)}")
    return value


def strings(row: Mapping[str, Any], key: str) -> dict[str, str]:
    """Read a mapping of strings, empty where the key is missing."""
    value = row.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for pair in value.items() for item in pair):
        raise field_error(key, f"needs an object of strings, got {_short(value)}")
    return value


def network(row: Mapping[str, Any], key: str = "network") -> Any:
    """Read `none`, or `blackhole` with or without the addresses that vanish."""
    word = str(row.get(key) or "none").split(" ", maxsplit=1)[0]
    if word not in NETWORKS:
        raise field_error(key, f"needs one of {', '.join(NETWORKS)}, got {_short(row.get(key))}")
    return word


def recipe_fields(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the row's `paddock` object: a recipe's keys and `test_cmd`; empty where it has none."""
    own = row.get("paddock")
    if own is not None and not isinstance(own, Mapping):
        raise field_error("paddock", f"needs an object with a recipe's keys, got {type(own).__name__}")
    if own is None and isinstance(row.get("build"), Mapping):
        raise field_error("build", "a recipe of a row of the own format; in a row of this form the key is `paddock`")
    return own or {}


def image(row: Mapping[str, Any], own: Mapping[str, Any], dataset: Dataset) -> str:
    """The row's image; one that is built from the recipe in `own` has the instance's name, whatever was published."""
    return text(row, "instance_id") if "python" in own else image_name(row, dataset)


def recipe(fields: Mapping[str, Any], *, workdir: str, key: str) -> Recipe:
    """Read a recipe from the keys of an object; its other keys are not read."""
    values = {name: fields[name] for name in Recipe.model_fields if fields.get(name) is not None}
    try:
        return Recipe.model_validate({"workdir": workdir, **values})
    except ValidationError as error:
        raise field_error(key, describe(error)) from error


def changed_paths(diff: bytes) -> list[str]:
    """Return the paths that the sections of a git patch leave behind, in its order."""
    paths = re.findall(rb"^diff --git a/.*? b/(.*?)\r?$", diff, re.MULTILINE)
    return [path.decode(errors="surrogateescape") for path in dict.fromkeys(paths)]


def dockerfile_env(texts: Iterable[str]) -> dict[str, str]:
    """Return the variables that Dockerfiles set; the last counts."""
    found = (pair for text in texts for pair in _ENV.findall(text))
    return {name: value.strip().strip("\"'") for name, value in found}


def _bytes(key: str, value: str) -> bytes:
    try:
        return patch_from_text(value)
    except ValueError as error:
        raise field_error(key, f"`base64:` that does not decode: {error}") from error


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
