"""What all reports' forms share: keys that this version does not know are kept, so that they can be named."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class StoredPart(BaseModel):
    """A part of a report's file."""

    model_config = ConfigDict(extra="allow", frozen=True)


def unknown_keys(parts: Sequence[StoredPart]) -> list[str]:
    """Keys that a later version wrote, each once."""
    return list(dict.fromkeys(name for part in parts for name in _unknown(part)))


def _unknown(value: Any) -> Iterator[str]:
    if isinstance(value, StoredPart):
        yield from value.model_extra or ()
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name))
    elif isinstance(value, dict):
        for part in value.values():
            yield from _unknown(part)
    elif isinstance(value, list):
        for part in value:
            yield from _unknown(part)


def first_fault(error: ValidationError) -> str:
    """Where a file has another form, and how: `combinations.0.verdict: Field required`."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])
