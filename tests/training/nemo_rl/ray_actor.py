"""Our actor in a Ray of its own, in a process with torch: what it is given (`drive_actor`), and how it is started."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from paddock.types import JsonObject

ROOT = Path(__file__).parents[3]
MODULE = "tests.training.nemo_rl.drive_actor"


def actor_input(servers: JsonObject, *, url: str, model: Path, rows: Sequence[JsonObject], folder: Path) -> JsonObject:
    """What `drive_actor` reads. `servers`: keys of `env.nemo_gym`, our servers among them; `url`: of NeMo-RL's chat
    server."""
    body: JsonObject = {
        "config_paths": ["responses_api_models/vllm_model/configs/vllm_model_for_training.yaml"],
        **servers,
        "eval": {"out": str(folder / "runs")},
    }
    return {
        "env": {"should_use_nemo_gym": True, "nemo_gym": body},
        "base_urls": [url],
        "model": "policy",
        "tokenizer": str(model),
        "rows": list(rows),
        "logs": str(folder / "logs"),
    }


def drive_actor(python: str, given: JsonObject) -> JsonObject:
    """What the process found."""
    ran = subprocess.run(
        [python, "-m", MODULE],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-8000:]
    told: JsonObject = json.loads(ran.stdout.splitlines()[-1])
    return told
