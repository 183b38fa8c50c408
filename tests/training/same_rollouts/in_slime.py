"""The task in slime's own rollout phase."""

import json
import os
import subprocess
import sys

from tests.training.same_rollouts.conftest import SameRun
from tests.training.same_rollouts.task import PARSERS

from paddock.types import JsonObject


def given_samples(run: SameRun, interpreter: str, checkout: str) -> list[JsonObject]:
    """The samples that the phase ended with."""
    settings = {
        "paddock_config": run.task.config,
        "paddock_engine": PARSERS,
        "paddock_rollouts": {"sample_mode": "branch", "out": run.task.out},
    }
    (run.folder / "custom.json").write_text(json.dumps(settings))
    made = [sys.executable, "-m", "paddock.training.slime", str(run.write_rows()), str(run.folder / "data.jsonl")]
    subprocess.run(made, check=True)
    path = [checkout, os.environ.get("PADDOCK_SLIME_PATH", checkout)]
    printed = run.python(interpreter, "tests.training.slime.driver", run.folder, "same", path=path)
    return [_sample(one) for one in json.loads(printed.splitlines()[-1])["samples"]]


def _sample(given: JsonObject) -> JsonObject:
    start = len(given["tokens"]) - given["response_length"]
    return {
        "ids": given["tokens"],
        "loss_mask": [0] * start + given["loss_mask"],
        "log_probs": [0.0] * start + given["rollout_log_probs"],
        "reward": given["reward"],
        "versions": given["weight_versions"],
    }
