"""Validates a block against a pydantic model; errors name the full key path and the nearest valid key.

Errors  ConfigError that lists every problem. A value is shown unless its key may hold a secret.
"""

import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from paddock.config.aliases import alias_table
from paddock.config.problems import invalid, suggestion
from paddock.config.trees import KeyPath, child, dotted

ModelT = TypeVar("ModelT", bound=BaseModel)

_SECRET = re.compile(r"key|token|secret|password|header|auth|url", re.IGNORECASE)


def validate(model: type[ModelT], data: Mapping[str, Any], where: str) -> ModelT:
    """`data` as an instance of `model`; `where`: its key path, for errors."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        problems = [text for _, text in explain(error, model, data, (where,))]
    raise invalid(problems)


def explain(
    error: ValidationError, model: type[BaseModel], data: Mapping[str, Any], where: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    """Each problem of `data` with its full key path."""
    for item in error.errors(include_url=False):
        location = item["loc"]
        own = _own_path(data, location)
        path = (*where, *own)
        name = dotted(path)
        if item["type"] == "extra_forbidden":
            yield path, f"unknown key `{name}`{_hint(str(location[-1]), model, location[:-1])}"
        elif item["type"] == "missing":
            yield path, f"`{name}` is required and not given"
        else:
            hidden = item["type"] == "secret" or any(_SECRET.search(part) for part in own)
            shown = "" if hidden else f" (got {_short(item['input'])})"
            # Nobody can write a tuple.
            message = item["msg"].replace("valid tuple", "valid list")
            yield path, f"`{name}`: {message}{shown}"


def _own_path(data: Any, location: tuple[int | str, ...]) -> KeyPath:
    """The keys of a location, without the names of union members that pydantic puts between them."""
    out: list[str] = []
    for index, part in enumerate(location):
        try:
            data = child(data, str(part))
        except KeyError:
            absent_key = isinstance(data, dict) and index == len(location) - 1
            if not absent_key:
                continue
        out.append(str(part))
    return tuple(out)


def _hint(key: str, model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    valid = valid_keys(model, location)
    rule = next((rule for rule in alias_table().rules_of(key) if rule.to != key), None)
    if rule is None:
        return suggestion(key, valid)
    meaning = f"here {rule.here}" if rule.here else (rule.inert or rule.trainer or "here it has other keys")
    return f": a NeMo-Gym key ({meaning}), refused in a block with our names; valid: {', '.join(valid)}"


def valid_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that the model at `location` has."""
    models: list[type[BaseModel]] = [model]
    annotations: list[Any] = [model]
    for part in location:
        below: list[Any] = []
        for annotation in annotations:
            below += _below(annotation, part)
        if below:
            annotations = [inner for annotation in below for inner in _alternatives(annotation)]
        else:
            # A union names the alternative that failed; it is no key.
            annotations = [
                annotation for annotation in annotations if getattr(annotation, "__name__", None) == part
            ] or annotations
    models = [
        annotation for annotation in annotations if isinstance(annotation, type) and issubclass(annotation, BaseModel)
    ]
    return sorted({field.alias or name for annotation in models for name, field in annotation.model_fields.items()})


def _below(annotation: Any, part: int | str) -> list[Any]:
    """The types that a value of `annotation` may have at `part`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in annotation.model_fields.items()}
        return [fields[part]] if isinstance(part, str) and part in fields else []
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None or not arguments:
        return []
    if isinstance(part, int):
        return [arguments[0]] if origin in (list, tuple, set, frozenset) else []
    return [arguments[1]] if origin is dict and len(arguments) == 2 else []


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union, or the type itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [inner for member in get_args(annotation) for inner in _alternatives(member)]
    return [annotation]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
