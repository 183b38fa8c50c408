"""Makes rows that ask for a record, or a table of them, in one of the formats or as a tool call.

Usage   python -m paddock.resources_servers.schema.make_rows --count N --seed S
Output  JSONL, the same for the same arguments. Each row has an `example_answer` that its schema takes.
"""

import csv
import io
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.collect.row_command import print_rows
from paddock.types import JsonObject

FORMATS = ("json", "yaml", "xml", "toml", "csv", "tool_call")
FIELDS: Mapping[str, tuple[JsonObject, Sequence[Any]]] = {
    "name": ({"type": "string", "minLength": 1}, ("Fram", "Vega", "Belgica", "Endurance", "Nimrod")),
    "year": ({"type": "integer", "minimum": 1500, "maximum": 2100}, (1872, 1892, 1896, 1912)),
    "length_m": ({"type": "number", "exclusiveMinimum": 0}, (39.0, 43.5, 34.6, 44.25)),
    "afloat": ({"type": "boolean"}, (True, False)),
    "rig": ({"type": "string", "enum": ["barque", "schooner", "barquentine"]}, ("barque", "schooner", "barquentine")),
    "port": ({"type": "string", "pattern": "^[A-Z][a-z]+$"}, ("Larvik", "Sandefjord", "Dundee", "Antwerp")),
}
TOOL = "record_ship"


def make_rows(count: int, seed: int) -> list[JsonObject]:
    """Make rows; equal arguments give equal ones."""
    rng = random.Random(seed)
    return [_row(rng, FORMATS[number % len(FORMATS)]) for number in range(count)]


def _row(rng: random.Random, form: str) -> JsonObject:
    names = rng.sample(sorted(FIELDS), rng.randint(2, len(FIELDS)))
    properties = {name: FIELDS[name][0] for name in names}
    record: JsonObject = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    ships = [{name: rng.choice(FIELDS[name][1]) for name in names} for _ in range(2)]
    facts = "; ".join(f"{name} {json.dumps(value)}" for name, value in ships[0].items())
    if form == "csv":
        schema: JsonObject = {"type": "array", "items": record, "minItems": 1}
        asked = f"Write a ship as CSV with a head, and nothing else: {facts}."
        return _line(asked, schema, {"schema_type": "csv", "example_answer": _csv(names, ships[:1])})
    if form == "xml":
        schema = {"type": "object", "properties": {"ship": record}, "required": ["ship"]}
        inner = "".join(f"<{name}>{_plain(value)}</{name}>" for name, value in ships[0].items())
        asked = f"Write a ship as one XML element `ship`, and nothing else: {facts}."
        return _line(asked, schema, {"schema_type": "xml", "example_answer": f"<ship>{inner}</ship>"})
    if form == "tool_call":
        fields = {
            "response_mode": "tool_call",
            "tool_name": TOOL,
            "tool_payload_key": "ship",
            "example_answer": json.dumps({"ship": ships[0]}),
        }
        parameters = {"type": "object", "properties": {"ship": record}, "required": ["ship"]}
        tool = {"type": "function", "name": TOOL, "description": "Notes a ship.", "parameters": parameters}
        return _line(f"Note this ship by the tool: {facts}.", record, fields, [{**tool, "strict": True}])
    answers = {"json": json.dumps(ships[0]), "yaml": _pairs(ships[0], ": "), "toml": _pairs(ships[0], " = ")}
    asked = f"Write a ship as {form.upper()}, and nothing else: {facts}."
    return _line(asked, record, {"schema_type": form, "example_answer": answers[form]})


def _line(asked: str, schema: JsonObject, fields: JsonObject, tools: Sequence[JsonObject] = ()) -> JsonObject:
    text = f"{asked}\nThe schema: {json.dumps(schema)}"
    params: JsonObject = {"input": [{"role": "user", "content": text}]}
    if tools:
        params["tools"] = list(tools)
    return {"responses_create_params": params, "schema_str": json.dumps(schema), **fields}


def _pairs(ship: JsonObject, between: str) -> str:
    return "\n".join(f"{name}{between}{json.dumps(value)}" for name, value in ship.items())


def _csv(names: Sequence[str], ships: Sequence[JsonObject]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(ship[name]) for name in names] for ship in ships)
    return out.getvalue()


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    print_rows("Print rows of structured output.", make_rows, count=12)
