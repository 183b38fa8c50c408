"""Rows as the examples of a TRL dataset.

Law     TRL gives a rollout function the prompts alone: the number of its row stands in the last message, beside role
        and content.
Errors  KeyError for a prompt that has none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.types import JsonObject

ROW_KEY = "paddock_row"


def dataset_rows(rows: Sequence[JsonObject]) -> list[dict[str, Any]]:
    """Examples for `datasets.Dataset.from_list`, in the order of the rows."""
    return [{"prompt": _prompt(row, number)} for number, row in enumerate(rows)]


def row_number(prompt: Sequence[Mapping[str, Any]]) -> int:
    """Which row a prompt is of."""
    return int(prompt[-1][ROW_KEY])


def messages_of(row: JsonObject) -> list[dict[str, Any]]:
    """The messages of a row's request, for those who read traces."""
    request = row.get("responses_create_params") or {}
    given = request.get("input") or []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [
        {"role": item["role"], "content": item["content"]} for item in given if isinstance(item.get("content"), str)
    ]


def _prompt(row: JsonObject, number: int) -> list[dict[str, Any]]:
    """One message: a dataset has one form of messages, rows have many. The environment has the row itself."""
    texts = [message["content"] for message in messages_of(row)]
    return [{"role": "user", "content": "\n\n".join(texts), ROW_KEY: number}]
