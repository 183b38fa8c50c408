"""A rollout of an environment of verifiers is one exact sample: what was sampled, in its place, is trained on."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import orjson
from tests.agents.verifiers.conftest import ENVIRONMENTS, PYTHON, ROOT, block, make_rows, needs_verifiers, variables

pytestmark = needs_verifiers


def test_a_rollout_of_three_turns_is_one_sample(tmp_path: Path) -> None:
    assert PYTHON is not None
    make_rows("graded_text", tmp_path, "--count", "2")
    config = block("graded_text", {"agent": {"harness": {"id": "local_chat"}}}, python=None)
    config["policy_model"] = {"models_servers": {"paddock.testing.servers:EchoModel": {}}}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    command = [PYTHON, "-m", "tests.agents.verifiers.drive_exact", str(tmp_path)]
    subprocess.run(command, check=True, env=variables([ENVIRONMENTS]), cwd=ROOT, timeout=300)
    for member in orjson.loads((tmp_path / "exact.json").read_bytes()):
        assert member["outcome"] == "completed"
        calls, (sample,) = member["calls"], member["samples"]
        assert len(calls) == 3
        for before, after in pairwise(calls):
            joined = before["prompt"] + before["sampled"]
            assert after["prompt"][: len(joined)] == joined
        assert sample["ids"] == calls[-1]["prompt"] + calls[-1]["sampled"]
        trained = [token for token, flag in zip(sample["ids"], sample["loss_mask"], strict=True) if flag]
        assert trained == [token for call in calls for token in call["sampled"]]
        log_probs = [value for value, flag in zip(sample["log_probs"], sample["loss_mask"], strict=True) if flag]
        assert log_probs == [value for call in calls for value in call["log_probs"]]
