"""One run of four rows, two members each, collected for real: solved, wrong (and hostile), without a patch, failed."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

HOSTILE = (
    '</pre></details><script>alert("x")</script>'
    '<img src="https://example.org/x.png" onerror=alert(1)>\x1b[2J\u202e&amp;'
)
PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


def thought(text: str) -> JsonObject:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def exec_call(command: str) -> JsonObject:
    return call_item("exec", json.dumps({"command": command, "timeout_s": 5}))


def edit_call(path: str, old: str, new: str) -> JsonObject:
    arguments = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
    return call_item("str_replace_editor", json.dumps(arguments))


def a_row(name: str, **task: Any) -> JsonObject:
    return {
        "responses_create_params": {"input": []},
        "instance_id": name,
        "repo": f"{name.partition('__')[0]}/code",
        "problem_statement": f"The issue of {name}.",
        **task,
    }


SOLVED = a_row(
    "calc__calc-1",
    turns=[
        [thought("Where is it?"), message_item("I look."), exec_call("ls"), exec_call("cat\ncalc.py")],
        [exec_call("sed -i s/-/+/ calc.py"), edit_call("/testbed/calc.py", "a - b\n", "a + b\n")],
        [message_item("It is fixed.")],
    ],
    results=["calc.py", "first line\n" + "x" * 30_000 + "\nlast line", "", ""],
    patch=PATCH,
    reason="resolved",
    tests={"FAIL_TO_PASS": {"test_calc.py::test_add": "PASSED"}, "PASS_TO_PASS": {"test_calc.py::test_sub": "PASSED"}},
)
WRONG = a_row(
    "evil__evil-1",
    turns=[[message_item(HOSTILE), exec_call(HOSTILE), edit_call(HOSTILE, "a", HOSTILE)], [message_item("Done.")]],
    results=[HOSTILE, HOSTILE],
    patch=f"diff --git a/x b/x\n+{HOSTILE}\n",
    problem_statement=HOSTILE,
    tests={"FAIL_TO_PASS": {f"test[{HOSTILE}]": "FAILED", "test_b": "PASSED"}},
)
EMPTY = a_row("calc__calc-2", turns=[[message_item("I give up.")], [message_item("Really.")]], reason="no_patch")
FAILED = a_row("calc__calc-3", turns=[[message_item("Hm.")]], fails=True)


@pytest.fixture(scope="session")
def seen_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The run's folder."""
    folder = tmp_path_factory.mktemp("seen")
    rows = folder / "rows.jsonl"
    rows.write_bytes(b"\n".join(orjson.dumps(row) for row in (SOLVED, WRONG, EMPTY, FAILED)))
    refers = {
        "resources_server": {"type": "resources_servers", "name": "world"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    sys.path.append(str(Path(__file__).parent))
    try:
        config = load(
            [],
            extra={
                "world": {"resources_servers": {"scripted_world:ScriptedWorld": {}}},
                "worker": {"agents": {"scripted_world:Worker": refers}},
                "policy": {"models_servers": {"replay": {"turn_store": {"folder": str(folder / "turns")}}}},
            },
        )
        plan = make_plan(config, EvalSettings(rows=[str(rows)], repeats=2), oracle=True)
        asyncio.run(evaluate(plan, folder / "run", quiet=True))
        yield folder / "run"
    finally:
        sys.path.remove(str(Path(__file__).parent))
