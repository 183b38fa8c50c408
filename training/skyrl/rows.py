"""Rows of ours as lines of a SkyRL dataset, and back: `python -m paddock.training.skyrl.rows ROWS.jsonl LINES.jsonl`.

Law     a row travels as one text. SkyRL reads datasets as tables, where dictionaries of one column get each other's
        keys, with null: a row that had gone through one would be another.
Prompt  SkyRL measures `prompt` and logs it; what the model sees is made from the row.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from paddock.errors import ConfigError
from paddock.types import JsonObject
from paddock.types.request_fields import SAMPLING

COLUMN = "paddock_row"
"""The column of a dataset that holds a row."""


def dataset_line(row: JsonObject) -> JsonObject:
    """The line of a SkyRL dataset for a row."""
    return {"prompt": _messages(row), "env_class": "paddock", COLUMN: orjson.dumps(row).decode()}


def row_of(extras: Mapping[str, Any] | None) -> JsonObject:
    """The row in a prompt's `env_extras`. ConfigError where there is none."""
    text = (extras or {}).get(COLUMN)
    if not isinstance(text, str):
        raise ConfigError(
            f"env_extras have no text `{COLUMN}`: make the dataset by `python -m paddock.training.skyrl.rows`",
            kind="row_missing",
        )
    row: JsonObject = orjson.loads(text)
    return row


def with_sampling(row: JsonObject, sampling: Mapping[str, Any] | None) -> JsonObject:
    """The row, sampled as SkyRL says: its policy computes log-probs at that temperature. `sampling`: parameters under
    vLLM's names. The smaller number of tokens counts, the row's or SkyRL's."""
    params = row.get("responses_create_params")
    if not sampling or not isinstance(params, dict):
        return row
    changed = {name: sampling[name] for name in SAMPLING if sampling.get(name) is not None}
    if changed.get("top_k", 0) < 1:
        changed.pop("top_k", None)
    budgets = [n for n in (params.get("max_output_tokens"), sampling.get("max_tokens")) if isinstance(n, int)]
    if budgets:
        changed["max_output_tokens"] = min(budgets)
    return {**row, "responses_create_params": {**params, **changed}}


def _messages(row: JsonObject) -> list[JsonObject]:
    """The messages of the row's prompt as SkyRL takes them: there has to be one."""
    given = (row.get("responses_create_params") or {}).get("input") or ""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [
        {"role": item["role"], "content": item["content"]}
        for item in items
        if isinstance(item, dict) and "role" in item and isinstance(item.get("content"), str)
    ]
    return messages or [{"role": "user", "content": ""}]


def main(source: str, target: str) -> None:
    """Write the lines of all rows of a file."""
    rows = (orjson.loads(line) for line in Path(source).read_bytes().splitlines() if line.strip())
    Path(target).write_bytes(b"".join(orjson.dumps(dataset_line(row)) + b"\n" for row in rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
