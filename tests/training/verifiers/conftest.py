"""Rows, keys and an environment for runs of the real verifiers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.types import JsonObject

PYTHON = os.environ.get("PADDOCK_VERIFIERS_PYTHON")
ROOT = Path(__file__).parents[3]
PIVOT = ROOT / "resources_servers/pivot"
PADDOCK = Path(sys.executable).with_name("paddock")
ROWS, SIZE = 5, 5


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file of short example rows."""
    lines = (PIVOT / "data/example.jsonl").read_bytes().splitlines()
    chosen = [line for line in lines if len(orjson.loads(line)["responses_create_params"]["input"]) < 8]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(chosen[:ROWS]) + b"\n")
    return path


def taskset_keys(folder: Path, rows: Path, **keys: Any) -> JsonObject:
    """`env.taskset`; its rollouts are journalled below `folder`."""
    return {
        "id": "paddock-environment",
        "config": [str(PIVOT / "configs/pivot.yaml")],
        "rows": [str(rows)],
        "overrides": [f"rollouts.out={folder / 'journal'}", "eval.max_attempts=1"],
        **keys,
    }


def python_path(*further: str) -> dict[str, str]:
    """The environment of a process in which verifiers finds us."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "shims"), *further])}


def read_samples(folder: Path) -> list[JsonObject]:
    """The lines of `paddock samples` over the journal below `folder`."""
    (journal,) = (folder / "journal").iterdir()
    return [orjson.loads(line) for line in subprocess.check_output([PADDOCK, "samples", journal]).splitlines()]
