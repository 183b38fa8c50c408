"""Finds references in a conversation that the upstream would have to fetch, or look up in a store of its own.

Law     media are given as themselves: `data:` URLs and inline base64. All dictionaries of messages, items and parts
        are looked at, however deep, but those that mean nothing there: the arguments of tools.
Source  OpenAI's and Anthropic's content parts, vLLM's (`video_url`, embeddings, `uuid`), and those of open models'
        processors (`{type: image, path}`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_INLINE = "give the data itself, as a `data:` URL"
_SOURCE = "give the data itself, as a source of type `base64` or `text`"
_STORED = "give what it stands for in the request itself"
_RUN_INSIDE = "call functions that the program runs itself"
_URLS = frozenset(["image_url", "video_url", "audio_url", "file_url", "file_data"])
_IDS = frozenset(["file_id", "file_ids", "container_id", "container", "vector_store_ids", "server_url", "connector_id"])
_TENSORS = frozenset(["image_embeds", "video_embeds", "audio_embeds", "prompt_embeds", "image_pil"])
_REFERENCE_KEYS = frozenset([*_URLS, *_IDS, *_TENSORS, "source", "audio"])
_MEDIA_KEYS = ("url", "uri", "path", "image", "video", "audio", "uuid")
_MEDIA_KINDS = frozenset(
    [
        *("image", "video", "audio", "file", "document", "image_url", "video_url", "audio_url"),
        *("input_image", "input_video", "input_audio", "input_file"),
    ]
)
_REFUSED_KINDS: Mapping[str, str] = {
    "item_reference": _STORED,
    "container_upload": _STORED,
    **dict.fromkeys(
        ["code_interpreter_call", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"],
        _RUN_INSIDE,
    ),
}
OFFERS = frozenset(["additional_tools", "tool_search_output"])
"""Types of items whose `tools` are definitions, which are checked as such."""
_CALLS = frozenset(["tool_use", "server_tool_use", "mcp_tool_use"])
_BARE_DATA = 64
"""Characters of base64 within which a URL would show its scheme."""
Location = tuple[Any, Any]
"""A key or index with the location of its container; None: the request itself."""


class OutsideReference(NamedTuple):
    """A reference to something outside the conversation."""

    location: str
    """Its path in the request, as in `input[3].content[0].image_url`."""
    why: str
    advice: str


def find_reference(field: str, value: Any, *, is_input: bool = False) -> OutsideReference | None:
    """The first in `value`; None: there is none. `is_input`: it is a list of Responses items."""
    for part, location in _parts(value, (None, field)):
        reference = _in_part(part, location)
        if reference is None and is_input and location[0] == (None, field) and _is_bare_id(part):
            reference = OutsideReference(path_of((location, "id")), "an item of a store", _STORED)
        if reference is not None:
            return reference
    return None


def path_of(location: Location | None) -> str:
    """As in `input[3].content[0].image_url`."""
    keys: list[str] = []
    while location is not None:
        location, key = location
        keys.append(f"[{key}]" if isinstance(key, int) else f".{str(key)[:64]}")
    return "".join(reversed(keys)).removeprefix(".")


def _parts(value: Any, location: Location) -> Iterator[tuple[dict[str, Any], Location]]:
    """All dictionaries in `value` that may be messages, items, parts, or within one."""
    pending = [(value, location)]
    while pending:
        value, location = pending.pop()
        if isinstance(value, list):
            pending += [(child, (location, nth)) for nth, child in enumerate(value) if isinstance(child, dict | list)]
        elif isinstance(value, dict):
            yield value, location
            skipped_keys = _skipped_keys(value.get("type"))
            pending += [
                (child, (location, key))
                for key, child in value.items()
                if isinstance(child, dict | list) and key not in skipped_keys
            ]


def _skipped_keys(kind: Any) -> tuple[str, ...]:
    if not isinstance(kind, str):
        return ("arguments",)
    if kind in _CALLS:
        return ("input",)
    return ("arguments", "tools") if kind in OFFERS else ("arguments",)


def _in_part(part: dict[str, Any], location: Location) -> OutsideReference | None:
    kind = part.get("type")
    if isinstance(kind, str):
        advice = _REFUSED_KINDS.get(kind)
        if advice is not None:
            return OutsideReference(path_of(location), f"`{kind}`", advice)
        if kind in _MEDIA_KINDS:
            for key in _MEDIA_KEYS:
                value = part.get(key)
                if isinstance(value, str) and value and not _is_data(value):
                    return OutsideReference(path_of((location, key)), "media that are elsewhere", _INLINE)
    if _REFERENCE_KEYS.isdisjoint(part):
        return None
    for key in part.keys() & _REFERENCE_KEYS:
        problem = _problem(key, part[key])
        if problem is not None:
            return OutsideReference(path_of((location, key)), *problem)
    return None


def _problem(key: str, value: Any) -> tuple[str, str] | None:
    """What the value refers to, and what would be right."""
    if not value:
        return None
    if key in _URLS:
        url = value.get("url") if isinstance(value, dict) else value
        bare = key == "file_data" and isinstance(url, str) and ":" not in url[:_BARE_DATA]
        return None if url is None or bare or _is_data(url) else ("a URL that would have to be fetched", _INLINE)
    if key in _IDS:
        return "what the upstream stores or reaches", _STORED
    if key in _TENSORS:
        return "tensors for the engine", _INLINE
    if not isinstance(value, dict):
        return None
    if key == "audio":
        return ("what the upstream stores", _STORED) if value.get("id") else None
    elsewhere = value.get("type") in ("url", "file") or value.get("url")
    return ("a source that is elsewhere", _SOURCE) if elsewhere else None


def _is_data(url: Any) -> bool:
    return isinstance(url, str) and url[:5].lower() == "data:"


def _is_bare_id(item: dict[str, Any]) -> bool:
    """An item of Responses that is nothing but the id of another."""
    return bool(item.get("id")) and item.get("type") is None and item.get("role") is None
