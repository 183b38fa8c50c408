"""Small real runs, whose rows say how each rollout ends."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.types import JsonObject

SCRIPTED = "paddock.conformance.scripted"


def collect_run(folder: Path, rows: Sequence[JsonObject], **settings: Any) -> Path:
    """The folder of a run of two members a row. A row's `answer` other than `yes` is wrong; see
    `ScriptedEnvironment`."""
    file = folder / "rows.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps({"responses_create_params": {"input": "q"}, **row}) for row in rows))
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    tree = {
        "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": refers}},
        "policy": {"models_servers": {f"{SCRIPTED}:ScriptedModel": {}}},
    }
    plan = make_plan(load([], extra=tree), EvalSettings(rows=[str(file)], repeats=2, **settings))
    asyncio.run(evaluate(plan, folder / "run", quiet=True))
    return folder / "run"
