"""Claims about structured output: one document that the schema takes is paid, whatever else is in the text is not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.schema import SchemaServer
from paddock.resources_servers.schema.make_rows import make_rows
from paddock.resources_servers.schema.server import SchemaConfig
from paddock.testing.transports import over
from paddock.types import JsonObject, Verdict
from paddock.types.records import WEAK_ROW
from paddock.types.responses import call_item, make_response, message_item

DATA = Path(__file__).parents[3] / "resources_servers" / "schema" / "data" / "example.jsonl"
SHIP: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["name"],
}
GOOD = '{"name": "Fram", "year": 1892}'
SHIPS = {"type": "object", "properties": {"ship": SHIP}}
LIST = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
TABLE = {"type": "array", "items": SHIP}
NUMBERS = {"type": "array", "items": {"type": "number"}}


def row(schema: Any = SHIP, **fields: Any) -> JsonObject:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return {"responses_create_params": {"input": "Write it down."}, "schema_str": text, **fields}


async def judge(line: JsonObject, *items: str | JsonObject, **config: Any) -> Verdict:
    asked = read_row(line)
    output = [message_item(item) if isinstance(item, str) else item for item in items]
    response = make_response(output, asked.responses_create_params, model="policy")
    server = SchemaServer(SchemaConfig(**config), name="schema", peers={})
    async with over("direct", server) as peers:
        return await peers["schema"].call(VERIFY, VerifyRequest(row=asked, response=response), Call())


@pytest.mark.parametrize(
    ("schema", "form", "text"),
    [
        (SHIP, "json", GOOD),
        (SHIP, "json", "\n\t " + GOOD + "\n"),
        (SHIP, "json", '{"year": 1892.0, "name": "\\u0046ram \\ud83d\\ude00"}'),
        (NUMBERS, "json", "[1e3, -0, 123456789012345678901234567890]"),
        (SHIP, "yaml", "name: Fram\nyear: 1892"),
        (SHIP, "yaml", '---\n{"name": "Fram", "year": 1892}\n...\n'),
        (SHIP, "yaml", "# of wood\nyear: 1892\nname: >-\n  Fram\n"),
        (SHIP, "toml", 'name = "Fram"\nyear = 1_892'),
        (TABLE, "csv", "name,year\nFram,1892\n"),
        (TABLE, "csv", '"year","name"\r\n1892,"Fram, of Larvik"\r\n'),
        (SHIPS, "xml", "<ship><name>Fram</name><year> 1892 </year></ship>"),
        (SHIPS, "xml", '<?xml version="1.0"?><ship><year>1892</year><name><![CDATA[Fram]]></name></ship>'),
        (LIST, "xml", "<n><i>1</i><i>2</i></n>"),
    ],
)
async def test_one_document_that_the_schema_takes_is_paid(schema: Any, form: str, text: str) -> None:
    verdict = await judge(row(schema, schema_type=form), text)
    assert (verdict.reward, verdict.reason) == (1.0, "valid"), verdict.detail


@pytest.mark.parametrize(
    ("form", "text", "reason"),
    [
        ("json", "", "empty"),
        ("json", " \n", "empty"),
        ("json", "{}", "invalid"),
        ("json", '{"name": null, "year": null}', "invalid"),
        ("json", '{"name": "Fram"}', "invalid"),
        ("json", '{"name": "Fram", "year": 1892, "note": ""}', "invalid"),
        ("json", '{"name": "Fram", "year": true}', "invalid"),
        ("json", "null", "invalid"),
        ("json", GOOD + GOOD, "no_document"),
        ("json", GOOD + " That is it.", "no_document"),
        ("json", "Here: " + GOOD, "no_document"),
        ("json", f"```json\n{GOOD}\n```", "no_document"),
        ("json", GOOD.replace("1892", "1892, "), "no_document"),
        ("json", "\ufeff" + GOOD, "no_document"),
        ("json", '{"name": "", "name": "Fram", "year": 1892}', "no_document"),
        ("json", '{"name": "Fram", "year": NaN}', "no_document"),
        ("json", "[" * 60_000 + "]" * 40_000, "no_document"),
        ("json", '{"a":' * 15_000, "no_document"),
        ("json", '{"name": "\\ud800", "year": 1}', "no_document"),
        ("json", GOOD + " " * 200_000, "too_long"),
        ("yaml", "name: &a Fram\nyear: 1892\nx: *a", "no_document"),
        ("yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "no_document"),
        ("yaml", "name: Fram\nyear: 1892\n---\nname: Gjoa\nyear: 1872", "no_document"),
        ("yaml", "name: Fram\nname: Fram\nyear: 1892", "no_document"),
        ("yaml", "name: !!python/object/apply:os.getcwd []\nyear: 1", "no_document"),
        ("yaml", "1: Fram", "no_document"),
        ("yaml", 'name: Fram\nyear: !!int ""', "no_document"),
        ("yaml", "name: Fram\nyear: !!bool Gjoa", "no_document"),
        ("yaml", "name: Fram\nyear: !!timestamp Gjoa", "no_document"),
        ("yaml", "year: .nan\nname: x", "no_document"),
        ("yaml", "year: 1892-01-01\nname: x", "invalid"),
        ("yaml", "[" * 90_000, "no_document"),
        ("yaml", "- " * 45_000, "no_document"),
        ("toml", "name = 'Fram'\nyear = nan", "no_document"),
        ("toml", "name = 'Fram'\nyear = 1892-01-01", "invalid"),
        ("toml", ".".join("a" * 40_000) + " = 1", "no_document"),
        ("toml", '"a" . ' * 16_000 + "b = 1", "no_document"),
        ("toml", "a = " + "[" * 90_000, "no_document"),
        ("csv", "name,year\nFram\n", "invalid"),
        ("csv", "name,year\nFram,1892,of wood\n", "no_document"),
        ("csv", "name,name\nFram,1892\n", "no_document"),
        ("csv", 'name,year\n"Fram,1892\n', "no_document"),
        ("xml", "<ship><name>Fram</name></ship><ship/>", "no_document"),
        ("xml", "<!DOCTYPE a [<!ENTITY x 'y'>]><ship><name>&x;</name></ship>", "no_document"),
        ("xml", "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><ship/>", "no_document"),
        ("xml", "<a>" * 30_000, "no_document"),
    ],
)
@pytest.mark.timeout(60)
async def test_whatever_else_is_in_the_text_is_not_paid(form: str, text: str, reason: str) -> None:
    schema = TABLE if form == "csv" else SHIP
    verdict = await judge(row(schema, schema_type=form), text)
    assert (verdict.reward, verdict.reason) == (0.0, reason), verdict.detail


CALL = {"response_mode": "tool_call", "tool_name": "note", "tool_payload_key": "ship"}


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([call_item("note", f'{{"ship": {GOOD}}}')], "valid"),
        (["Noted.", call_item("note", f'{{"ship": {GOOD}}}')], "valid"),
        ([GOOD], "no_call"),
        ([call_item("note", f'{{"ship": {GOOD}}}')] * 2, "several_calls"),
        ([call_item("other", f'{{"ship": {GOOD}}}')], "other_tool"),
        ([call_item("note", GOOD)], "no_payload"),
        ([call_item("note", "[]")], "no_payload"),
        ([call_item("note", '{"ship": {}}')], "invalid"),
        ([call_item("note", '{"ship": {"name": "a", "name": "b", "year": 1}}')], "no_document"),
        ([call_item("note", "")], "empty"),
    ],
)
async def test_of_a_tool_call_the_arguments_are_judged(items: list[Any], reason: str) -> None:
    assert (await judge(row(**CALL), *items)).reason == reason


async def test_an_empty_document_is_paid_only_as_the_schema_says_and_the_row_is_weak() -> None:
    anything = row({"type": "object", "properties": {"name": {"type": "string"}}})
    loose = await judge(anything, "{}", strict=False)
    assert (loose.reward, loose.metrics[WEAK_ROW]) == (1.0, 1.0)
    strict = await judge(anything, "{}")
    assert (strict.reward, strict.metrics[WEAK_ROW]) == (0.0, 0.0)
    assert (await judge(row({}), "null")).metrics[WEAK_ROW] == 1.0


async def test_a_fence_may_be_allowed() -> None:
    for text in (f"```json\n{GOOD}\n```", f"```\n{GOOD}```\n"):
        assert (await judge(row(), text, fence=True)).reward == 1.0
    for text in (f"Here:\n```json\n{GOOD}\n```", f"```json\n{GOOD}\n```\n```\n{GOOD}\n```", f"```\n{GOOD}"):
        assert (await judge(row(), text, fence=True)).reward == 0.0


async def test_formats_may_be_asked_for() -> None:
    dated = row({"properties": {"on": {"type": "string", "format": "date"}}})
    assert (await judge(dated, '{"on": "never"}')).reward == 1.0
    assert (await judge(dated, '{"on": "never"}', formats=True)).reward == 0.0
    assert (await judge(dated, '{"on": "1892-10-26"}', formats=True)).reward == 1.0


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"^(a|aa)+\1$", "^(?=(a|aa)+c)(a|aa)+$"])
@pytest.mark.timeout(60)
async def test_no_pattern_of_a_schema_stalls_the_server(pattern: str) -> None:
    texts = json.dumps(["a" * 40 + "!"] * 2000)
    assert (await judge(row({"items": {"pattern": pattern}}), texts)).reward == 0.0


@pytest.mark.timeout(60)
async def test_no_schema_that_refers_to_itself_stalls_the_server() -> None:
    for combine in ("anyOf", "oneOf", "allOf"):
        schema = {"properties": {"a": {combine: [{"$ref": "#"}, {"$ref": "#"}]}}}
        assert (await judge(row(schema), '{"a":' * 60 + '{"b": 1}' + "}" * 60)).reward == 0.0
    tree = {"properties": {"inner": {"type": "array", "items": {"$ref": "#"}}}}
    assert (await judge(row(tree), '{"inner": [{"inner": []}, {"inner": []}]}')).reward == 1.0


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        "[]",
        '{"type": "objct"}',
        '{"a": 1, "a": 2}',
        '{"properties": []}',
        '{"pattern": "("}',
        '{"pattern": "((a{1000}){1000}){1000}"}',
        '{"$ref": "http://127.0.0.1:9/schema.json"}',
        '{"$ref": "file:///etc/hostname"}',
        '{"$ref": "#/$defs/none"}',
        '{"$schema": "http://example.com/own"}',
        '{"a":' * 200 + "1" + "}" * 200,
    ],
)
async def test_a_schema_that_can_not_be_used_is_the_rows_fault(schema: str) -> None:
    with pytest.raises(RowError, match="schema_str"):
        await judge(row(schema), "{}")


async def test_the_draft_that_a_schema_names_holds() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert (await judge(row(schema), '["a"]')).reward == 1.0
    assert (await judge(row(schema), "[1]")).reward == 0.0


def test_the_example_rows_are_what_their_script_prints() -> None:
    command = [sys.executable, "-m", "paddock.resources_servers.schema.make_rows", "--count", "6", "--seed", "0"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == DATA.read_bytes()


async def test_the_answers_of_made_rows_are_right_and_the_rows_are_not_weak() -> None:
    server = SchemaServer(SchemaConfig(), name="schema", peers={})
    for line in make_rows(120, 1):
        asked = read_row(line)
        [items] = server.oracle(server.read_task(asked), asked)
        verdict = await judge(line, *items)
        assert (verdict.reward, verdict.metrics[WEAK_ROW]) == (1.0, 0.0), verdict.detail
