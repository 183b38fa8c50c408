"""Claims about the rewards of structured output: they are those of NeMo-Gym's `structured_outputs`, but where its
documents are none."""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gym_rewards import body, interpreter, their_rewards

from paddock.http import read_row
from paddock.resources_servers.schema.make_rows import make_rows
from paddock.resources_servers.schema.server import SchemaConfig, SchemaServer
from paddock.types import JsonObject
from paddock.types.responses import call_item, make_response

pytestmark = pytest.mark.slow

SERVER = "resources_servers.structured_outputs.app:StructuredOutputsResourcesServer"
WHERE = "import resources_servers.structured_outputs as s; print(list(s.__path__)[0])"
EDITS = (("1", "x"), ('"', ""), ("true", "1"), ("false", "no"), (".5", ""), ("barque", "boat"), (",", ""), ("\n", " "))
"""Changes of a right answer, most of which make a wrong one."""


def value_of(schema: Any, chance: random.Random) -> Any:
    """A value that a plain schema takes, or one like it."""
    kinds = schema.get("type", "string") if isinstance(schema, dict) else "string"
    kind = chance.choice(kinds) if isinstance(kinds, list) else kinds
    if chance.random() < 0.02:
        kind = chance.choice(("string", "integer", "null", "object"))
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {key: value_of(one, chance) for key, one in properties.items() if chance.random() < 0.99}
        case "array":
            return [value_of(schema.get("items", {}), chance) for _ in range(chance.randint(0, 2))]
        case "integer" | "number" | "boolean" | "null":
            return {"integer": 3, "number": 2.5, "boolean": True, "null": None}[kind]
    return chance.choice(schema.get("enum", ["some words"])) if isinstance(schema, dict) else "words"


def published(python: str) -> Iterator[JsonObject]:
    """Example rows of their package, as JSON or as calls."""
    folder = subprocess.run([python, "-c", WHERE], cwd="/", check=True, capture_output=True, text=True).stdout.strip()
    for name in ("structured_outputs_v3_example", "structured_outputs_v4_example"):
        for line in Path(folder, "data", f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            row.pop("agent_ref", None)
            yield {**row, "schema_type": "json"}


def bodies(python: str) -> Iterator[JsonObject]:
    chance = random.Random(11)
    for row in make_rows(480, 2):
        text = row["example_answer"]
        for old, new in chance.sample(EDITS, chance.choice((0, 0, 1, 2))):
            text = text.replace(old, new, 1)
        if row.get("response_mode") == "tool_call":
            items = [call_item("record_ship", text)] * chance.choice((1, 1, 1, 2))
            yield {**row, "response": make_response(items, row["responses_create_params"], model="policy")}
        else:
            yield body(row, chance.choice((text, text, text, f"{text}\n", f"```\n{text}\n```", "", "{}")))
    for row in published(python):
        for _ in range(25):
            text = json.dumps(value_of(json.loads(row["schema_str"]), chance))
            key = row.get("tool_payload_key")
            arguments = json.dumps({key: json.loads(text)}) if key else text
            items = [call_item(row.get("tool_name") or "", arguments)]
            call = {**row, "response": make_response(items, row["responses_create_params"], model="policy")}
            yield call if row.get("response_mode") == "tool_call" else body(row, text)


async def test_the_rewards_are_those_of_structured_outputs() -> None:
    python = interpreter("PADDOCK_STRUCTURED_OUTPUTS_PYTHON", "nemo-gym 0.4.0 and what that server requires")
    made = list(bodies(python))
    theirs = await their_rewards(python, SERVER, made)
    server = SchemaServer(SchemaConfig(), name="schema", peers={})
    for index, given in enumerate(made):
        asked = read_row({key: value for key, value in given.items() if key != "response"})
        verdict = await server.verify(server.read_task(asked), asked, given["response"])
        assert verdict.reward == theirs[index], (verdict, given["schema_str"], given["response"]["output"])
    assert 200 < sum(filter(None, theirs)) < len(made) - 200


async def test_they_pay_what_is_no_document() -> None:
    """Where the two differ: what a reader of theirs takes beyond its format."""
    python = interpreter("PADDOCK_STRUCTURED_OUTPUTS_PYTHON", "nemo-gym 0.4.0 and what that server requires")
    number = {"type": "object", "properties": {"n": {"type": "number"}}}
    cases = [
        ("json", '{"n": NaN}'),
        ("json", '{"n": "x", "n": 1}'),
        ("yaml", "n: &a 1\n"),
        ("yaml", "n: .inf"),
        ("toml", "n = nan"),
        ("xml", "<n>1_000</n>"),
        ("xml", "<n>nan</n>"),
    ]
    rows = [
        {"responses_create_params": {"input": "x"}, "schema_str": json.dumps(number), "schema_type": form}
        for form, _ in cases
    ]
    made = [body(row, text) for row, (_, text) in zip(rows, cases, strict=True)]
    assert await their_rewards(python, SERVER, made) == [1.0] * len(cases)
    server = SchemaServer(SchemaConfig(), name="schema", peers={})
    asked = [read_row(row) for row in rows]
    ours = [
        (await server.verify(server.read_task(row), row, given["response"])).reward
        for row, given in zip(asked, made, strict=True)
    ]
    assert ours == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
