"""The task behind verifiers' environment server, as prime-rl asks it."""

import json

from tests.training.same_rollouts.conftest import ROOT, SameRun
from tests.training.same_rollouts.task import MAX_TOKENS, PARSERS, SIZE

from paddock.types import JsonObject


def given_samples(run: SameRun, interpreter: str) -> list[JsonObject]:
    """The branches of the traces that the server answered with."""
    keys = {
        "id": "paddock-environment",
        "config": [run.task.config],
        "rows": [str(run.write_rows())],
        "overrides": [f"rollouts.out={run.task.out}"],
        "engine": PARSERS,
    }
    (run.folder / "taskset.json").write_text(json.dumps(keys))
    (run.folder / "model").symlink_to(run.task.model)
    run.python(
        interpreter,
        "tests.training.verifiers.drive",
        run.folder,
        f"{run.task.url}/v1",
        str(SIZE),
        str(MAX_TOKENS),
        path=[ROOT / "shims"],
    )
    served = run.read("served.json")
    return [
        {
            "ids": branch["ids"],
            "loss_mask": [int(on) for on in branch["loss_mask"]],
            "log_probs": branch["log_probs"],
            "reward": member["reward"],
        }
        for group in served["groups"]
        for member in group
        for branch in member["branches"]
    ]
