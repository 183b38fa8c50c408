"""Claims about `paddock eval` over SWE rows: from a row to a verdict through every server, in real sandboxes.

The image is built from a released source distribution where it is not there yet; it stays below `PADDOCK_HOME`, else in
/var/tmp.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.sampling import few

from paddock.cli import main
from paddock.config import find_file
from paddock.errors import PaddockError
from paddock.http import rollout_from_wire
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore, Recipe
from paddock.sandbox.images.build import build_image
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(600)]
HOME = Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")
ASK_FOR_A_FIX = """python3 - <<'END'
import json, os, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/responses"
request = urllib.request.Request(url, json.dumps({"input": "Fix it."}).encode(), {"authorization": "Bearer unused"})
with urllib.request.urlopen(request) as reply:
    text = json.load(reply)["output"][0]["content"][0]["text"]
open("/tmp/fix.diff", "w").write(text)
END"""


@pytest.fixture(scope="session")
def row() -> JsonObject:
    """A row of ours whose image is there."""
    lines = find_file("resources_servers/swe/data/example.jsonl").read_bytes().splitlines()
    row: JsonObject = next(line for line in map(orjson.loads, lines) if "boltons" in line["instance_id"])
    HOME.mkdir(parents=True, exist_ok=True)
    store = ImageStore(HOME, payload_id=SandboxSettings().payload_id)
    try:
        asyncio.run(build_image(store, row["image"], Recipe.model_validate(row["build"])))
    except (PaddockError, OSError) as error:
        pytest.skip(f"the image of {row['instance_id']} can't be built here: {error}")
    return row


class SweEvalCase:
    """A config of a SWE environment and an agent whose model server is not there."""

    def __init__(self, folder: Path, rows: list[JsonObject], agent: JsonObject) -> None:
        self.folder = folder
        (folder / "rows.jsonl").write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
        sandbox = {"home": str(HOME), "runtime": "bubblewrap"}
        block = {
            "resources_server": {"type": "resources_servers", "name": "swe"},
            "model_server": {"type": "models_servers", "name": "policy"},
            "artifacts_dir": str(folder / "artifacts"),
            "sandbox": sandbox,
            "limits": {"memory_mib": 1024},
            "datasets": [{"name": "one", "type": "example", "jsonl_fpath": "rows.jsonl"}],
            **agent,
        }
        tree = {"swe": {"resources_servers": {"swe": {"sandbox": sandbox}}}, "agent": {"agents": {"swe": block}}}
        (folder / "case.yaml").write_text(yaml.safe_dump(tree))

    def eval(self, *more: str) -> int:
        return main(["eval", str(self.folder / "case.yaml"), "--out", str(self.folder / "run"), "--quiet", *more])

    def rollout(self) -> JsonObject:
        (line,) = (self.folder / "run" / "rollouts.jsonl").read_bytes().splitlines()
        rollout: JsonObject = orjson.loads(line)
        return rollout


NULL = ("null", 0.0, "no_patch")


@pytest.mark.parametrize(
    ("harness", "reward", "reason"),
    few([("gold", 1.0, "resolved"), ("noop", 0.0, "tests_fail"), NULL], [NULL], mark=pytest.mark.long),
)
def test_rows_are_tried_without_a_model(
    tmp_path: Path, row: JsonObject, harness: str, reward: float, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = SweEvalCase(tmp_path, [row], {"harness": "script", "harness_config": {"commands": ["true"]}})
    assert case.eval("--harness", harness) == 0
    assert f"harness {harness}" in capsys.readouterr().out
    rollout = case.rollout()
    assert (rollout["reward"], rollout["rollout"]["verdict"]["reason"]) == (reward, reason)
    assert rollout["rollout"]["turns"] == []
    (meta,) = (tmp_path / "artifacts").glob(f"*/0-0-0-{row['instance_id']}/meta.json")
    assert orjson.loads(meta.read_bytes())["instance_id"] == row["instance_id"]
    assert main(["verify", str(tmp_path / "run")]) == 0


@pytest.mark.slow
def test_a_policy_across_processes_gets_its_answer_through_the_tunnel_and_is_paid(
    tmp_path: Path, row: JsonObject
) -> None:
    commands = [ASK_FOR_A_FIX, "git apply /tmp/fix.diff"]
    case = SweEvalCase(tmp_path, [row], {"harness": "script", "harness_config": {"commands": commands}})
    assert case.eval("--oracle", "--isolate") == 0
    rollout = case.rollout()
    assert rollout["reward"] == 1.0
    assert len(rollout["rollout"]["turns"]) == 1


@pytest.mark.parametrize(("harness", "why"), [("golden", "gold"), ("script", "one of the two")])
def test_a_harness_that_can_not_be_is_refused_before_anything_starts(
    tmp_path: Path, harness: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = SweEvalCase(tmp_path, [{"responses_create_params": {"input": []}}], {"harness": "null"})
    assert case.eval("--harness", harness, "--oracle") == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "artifacts").exists()


def test_an_agent_without_a_harness_takes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent: dict[str, Any] = {
        "resources_server": {"type": "resources_servers", "name": "swe"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    tree = {"swe": {"resources_servers": {"swe": {}}}, "agent": {"agents": {"single_step": agent}}}
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(tree))
    assert main(["eval", str(tmp_path / "case.yaml"), "--harness", "null"]) == 2
    assert "no agent of the config has a harness" in capsys.readouterr().err


@pytest.mark.long
def test_a_stored_zero_that_grading_contradicts_is_told(
    tmp_path: Path, row: JsonObject, capsys: pytest.CaptureFixture[str]
) -> None:
    case = SweEvalCase(tmp_path, [row], {"harness": "script", "harness_config": {"commands": ["true"]}})
    assert case.eval("--harness", "gold") == 0
    stored = tmp_path / "run" / "rollouts.jsonl"
    rollout = rollout_from_wire(orjson.loads(stored.read_bytes()))
    assert rollout.verdict is not None
    zero = rollout.verdict.model_copy(update={"reward": 0.0, "reason": "tests_forged"})
    stored.write_bytes(orjson.dumps(rollout.model_copy(update={"verdict": zero}).to_wire()) + b"\n")
    assert main(["verify", str(tmp_path / "run")]) == 4
    assert "0 -> 1: tests_forged before, resolved now" in capsys.readouterr().out


FORGE = """cat >> boltons/__init__.py <<'END'

try:
    from _pytest import reports
except ImportError:
    pass
else:
    made = reports.TestReport.from_item_and_call.__func__

    def forged(cls, item, call):
        report = made(cls, item, call)
        report.outcome, report.longrepr = "passed", None
        return report

    reports.TestReport.from_item_and_call = classmethod(forged)
END"""


@pytest.mark.slow
def test_forged_results_cost_more_than_failing_and_are_kept_for_inspection(
    tmp_path: Path, row: JsonObject, capsys: pytest.CaptureFixture[str]
) -> None:
    case = SweEvalCase(tmp_path, [row], {"harness": "script", "harness_config": {"commands": [FORGE]}})
    assert case.eval("--oracle") == 0
    assert "tests_forged 1 (100.0 %)" in capsys.readouterr().out
    stored = rollout_from_wire(case.rollout())
    assert (stored.outcome, stored.reward) == ("completed", -1.0)
    assert stored.verdict is not None
    assert (stored.verdict.reason, stored.verdict.metrics["tests_forged"]) == ("tests_forged", 1.0)
    assert "PASSED" in str(stored.verdict.extras["log"])
    (left,) = (tmp_path / "artifacts").glob(f"*/0-0-0-{row['instance_id']}")
    assert b"from_item_and_call" in (left / "patch.diff").read_bytes()
    assert "PASSED" in orjson.loads((left / "meta.json").read_bytes())["verdict"]["extras"]["log"]
    assert main(["show", str(tmp_path / "run"), "--failed"]) == 0
    assert "tests_forged" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "run")]) == 0
