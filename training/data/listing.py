"""What rows of instances need: their ids, and the images their sandboxes are made from.

Source  a row's own keys, those of its `metadata` and of the `instance_dict` in it count as one, the outer ones first.
Names   of images as `paddock.sandbox.images` has them; their files are named as NeMo-RL's scripts name them, so that
        its `container_formatter` values find them.
"""

import re
from typing import NamedTuple

import orjson

from paddock.errors import RowError
from paddock.sandbox.images import Dataset, image_name
from paddock.types import JsonObject

_PREFIXES = {"namanjain12": "r2egym_", "xingyaoww": "swegym_", "swebench": "swebench_"}


class Image(NamedTuple):
    """One image by its name and its file's."""

    name: str
    file: str


def flat(row: JsonObject) -> JsonObject:
    """A row with what it holds inside; RowError where that is no object."""
    params = row.get("responses_create_params")
    metadata = params.get("metadata") if isinstance(params, dict) else None
    inner = metadata if isinstance(metadata, dict) else {}
    said = inner.get("instance_dict") or row.get("instance_dict") or {}
    try:
        instance = orjson.loads(said) if isinstance(said, str) else said
    except orjson.JSONDecodeError as error:
        raise RowError(f"instance_dict: no JSON: {error.msg}", kind="row_invalid") from error
    if not isinstance(instance, dict):
        raise RowError(f"instance_dict: needs a JSON object, got {type(instance).__name__}", kind="row_invalid")
    return {**instance, **inner, **row}


def instance_id(row: JsonObject) -> str:
    found = row.get("instance_id") or row.get("commit_hash")
    if not isinstance(found, str) or not found:
        raise RowError("has no instance_id, and no commit_hash", kind="row_invalid")
    return found


def image(row: JsonObject, rule: Dataset | None) -> Image:
    name = image_name(row, rule)
    return Image(name, sif_name(name))


def sif_name(name: str) -> str:
    """The file of an image: whose it is, then the last part of its name; the tag where it says something."""
    path, _, last = name.rpartition("/")
    prefix = _PREFIXES.get(path.rpartition("/")[2], "")
    return f"{prefix}{re.sub('[:@]', '_', last.removesuffix(':latest'))}.sif"
