"""Ids of instances in rows, and the images from which their sandboxes are made.

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


class ImageFile(NamedTuple):
    """An image: its name, and the name of its file."""

    name: str
    file: str


def flat(row: JsonObject) -> JsonObject:
    """The keys of a row with those of its instance; RowError where that is no object."""
    params = row.get("responses_create_params")
    metadata = params.get("metadata") if isinstance(params, dict) else None
    inner = metadata if isinstance(metadata, dict) else {}
    text = inner.get("instance_dict") or row.get("instance_dict") or {}
    try:
        instance = orjson.loads(text) if isinstance(text, str) else text
    except orjson.JSONDecodeError as error:
        raise RowError(f"instance_dict: no JSON: {error.msg}", kind="row_invalid") from error
    if not isinstance(instance, dict):
        raise RowError(f"instance_dict: needs a JSON object, got {type(instance).__name__}", kind="row_invalid")
    return {**instance, **inner, **row}


def instance_id(row: JsonObject) -> str:
    value = row.get("instance_id") or row.get("commit_hash")
    if not isinstance(value, str) or not value:
        raise RowError("has no instance_id, and no commit_hash", kind="row_invalid")
    return value


def image_file(row: JsonObject, rule: Dataset | None) -> ImageFile:
    name = image_name(row, rule)
    return ImageFile(name, sif_name(name))


def sif_name(name: str) -> str:
    """The name of an image's file: its owner, the last part of its name, and the tag where it is not `latest`."""
    path, _, last = name.rpartition("/")
    prefix = _PREFIXES.get(path.rpartition("/")[2], "")
    return f"{prefix}{re.sub('[:@]', '_', last.removesuffix(':latest'))}.sif"
