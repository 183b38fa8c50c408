"""Rows of ours as lines of a verl dataset, and back: `python -m paddock.training.verl.rows ROWS.jsonl LINES.jsonl`.

Law     a row travels as one text: verl reads datasets as tables, where dictionaries of one column get each other's
        keys, with null.
Prompt  verl measures `prompt` and logs it; what the model sees is made from the row.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from paddock.errors import ConfigError
from paddock.types import JsonObject

COLUMN = "paddock_row"
"""The column of a dataset that holds a row."""


def dataset_line(row: JsonObject, index: int) -> JsonObject:
    """The line of a verl dataset for a row. `index`: its number, on which its random choices depend."""
    return {
        "prompt": _messages(row),
        "data_source": "paddock",
        "agent_name": "paddock",
        "extra_info": {"index": index},
        COLUMN: orjson.dumps(row).decode(),
    }


def row_of(fields: Mapping[str, Any]) -> JsonObject:
    """The row among the fields of a sample. ConfigError where there is none."""
    text = fields.get(COLUMN)
    if not isinstance(text, str):
        raise ConfigError(
            f"the sample has no text `{COLUMN}`: make the dataset by `python -m paddock.training.verl.rows`",
            kind="row_missing",
        )
    row: JsonObject = orjson.loads(text)
    return row


def with_sampling(row: JsonObject, sampling: Mapping[str, Any], *, max_tokens: int) -> JsonObject:
    """The row, sampled as verl says: its policy computes log-probs at that temperature. `max_tokens`: bound of each
    answer, beside the row's own."""
    params = row.get("responses_create_params")
    if not isinstance(params, dict):
        return row
    changed = {name: sampling[name] for name in ("temperature", "top_p") if sampling.get(name) is not None}
    if (sampling.get("top_k") or 0) > 0:
        changed["top_k"] = sampling["top_k"]
    own = params.get("max_output_tokens")
    changed["max_output_tokens"] = min(own, max_tokens) if isinstance(own, int) else max_tokens
    return {**row, "responses_create_params": {**params, **changed}}


def _messages(row: JsonObject) -> list[JsonObject]:
    """The messages of the row's prompt as verl takes them: there has to be one."""
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
    rows = [orjson.loads(line) for line in Path(source).read_bytes().splitlines() if line.strip()]
    lines = [orjson.dumps(dataset_line(row, index)) + b"\n" for index, row in enumerate(rows)]
    Path(target).write_bytes(b"".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
