"""One training run over six environments: pivot, SWE, math, code, a server of NeMo-Gym's and one of verifiers'.

Rows    2,000 with the names of their agents: most are made by the scripts of their servers, a few are examples of
        verifiers and SWE, the rest pivot's examples again and again; the weights draw each agent as often as any other.
Model   `tiny_model`: its answers are nonsense, which every environment has to judge.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.e2e.learning import runs, swe, swe_run

from paddock.config import find_file
from paddock.types import JsonObject

N_ROWS = 2000
PROMPTS = 12
MODEL_REFERENCE = {"type": "models_servers", "name": swe.MODEL}
MADE = {"math_agent": ("math", 900), "code_agent": ("code", 100), "mcqa_agent": ("choice", 700)}
"""What makes the rows of each agent, and how many."""
AGENTS = ("pivot_agent", "swe_agent", "verifiers_agent", *MADE)


def rows(*, seed: int = 0) -> list[JsonObject]:
    """Every row names its agent."""
    named = [("swe_agent", row) for row in swe.built(swe_run.FIRST, swe_run.SECOND, swe_run.THIRD)]
    named += [("verifiers_agent", row) for row in _lines(find_file("examples/reversed_words.jsonl").read_text())]
    for agent, (server, count) in MADE.items():
        named += [(agent, row) for row in islice(filter(_is_published, _made(server, 2 * count, seed)), count)]
    calls = list(_lines(find_file("resources_servers/pivot/data/example.jsonl").read_text()))
    n_calls = N_ROWS - len(named)
    named += [("pivot_agent", calls[nth % len(calls)]) for nth in range(n_calls)]
    return [{**row, "agent_ref": {"type": "agents", "name": agent}} for agent, row in named]


def config(folder: Path, model: Path, *, verifiers_python: str, gym_python: str) -> JsonObject:
    """`folder`: with the rows."""
    tree = swe_run.config(folder, model, steps=1, rerolls=0)
    # Each step waits for all its groups: the slow environments are in it as much as the quick ones.
    tree["grpo"] |= {"num_prompts_per_step": PROMPTS, "num_generations_per_prompt": 2, "async_grpo": {"enabled": False}}
    tree["data"] = {"train": {"data_path": str(folder / swe_run.ROWS), "weights": dict.fromkeys(AGENTS, 1.0)}}
    servers = tree["env"]["nemo_gym"]
    servers["swe_agent"] = servers.pop("agent")
    servers |= {
        "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
        "pivot_agent": _agent("single_step", "pivot"),
        "math": {"resources_servers": {"math": {"python": sys.executable}}},
        "math_agent": _agent("single_step", "math"),
        "code": {"resources_servers": {"code": {"sandbox": swe.SANDBOX}}},
        "code_agent": _agent("single_step", "code"),
        "mcqa": {"resources_servers": {"nemo_gym": {"server": "mcqa", "interpreter": gym_python}}},
        "mcqa_agent": _agent("single_step", "mcqa"),
        "reversed_words": {"resources_servers": {"verifiers": {}}},
        "verifiers_agent": _agent(
            "verifiers",
            "reversed_words",
            python=verifiers_python,
            environment="reversed_words",
            path=[str(runs.ROOT / "examples")],
        ),
    }
    return tree


def _agent(implementation: str, resources: str, **own: Any) -> JsonObject:
    reference = {"type": "resources_servers", "name": resources}
    return {"agents": {implementation: {"resources_server": reference, "model_server": MODEL_REFERENCE, **own}}}


def _is_published(row: JsonObject) -> bool:
    """Whether NeMo-Gym 0.4.0 reads it: its mcqa has not every form of an answer that ours has."""
    return row.get("grading_mode") != "lenient_answer_colon_md"


def _made(server: str, count: int, seed: int) -> Iterator[JsonObject]:
    module = f"paddock.resources_servers.{server}.make_rows"
    command = [sys.executable, "-m", module, "--count", str(count), "--seed", str(seed)]
    return _lines(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _lines(text: str) -> Iterator[JsonObject]:
    yield from (json.loads(line) for line in text.splitlines())
