"""Claims about the experiments in `configs/`: they compose, and say to the model what they are meant to say."""

from pathlib import Path

import orjson
import pytest

from paddock.cli import main
from paddock.config import load
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.models_servers.openai.request import endpoint_request
from paddock.server.dialects.conversation import read_request

ROOT = Path(__file__).parents[2]
VERIFIED = ROOT / "configs" / "eval_swebench_verified.yaml"


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is not there."""
    monkeypatch.chdir(ROOT)
    for name, value in (("BASE_URL", "http://127.0.0.1:9/v1"), ("API_KEY", "none"), ("MODEL", "my-model")):
        monkeypatch.setenv(f"OPENAI_{name}", value)


def a_verified_row() -> bytes:
    row = {
        "instance_id": "pallets__flask-1",
        "repo": "pallets/flask",
        "base_commit": "0" * 40,
        "version": "2.3",
        "problem_statement": "It fails.",
        "hints_text": "",
        "created_at": "2023-01-01T00:00:00Z",
        "difficulty": "15 min - 1 hour",
        "patch": "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n",
        "test_patch": "diff --git a/tests/t.py b/tests/t.py\n--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-a\n+b\n",
        "FAIL_TO_PASS": '["tests/t.py::test_x"]',
        "PASS_TO_PASS": "[]",
        "environment_setup_commit": "0" * 40,
    }
    return orjson.dumps(row)


def test_swebench_verified_takes_rows_as_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "verified.jsonl").write_bytes(a_verified_row() + b"\n")
    arguments = ["eval", str(VERIFIED), "--rows", str(tmp_path / "verified.jsonl"), "--out", str(tmp_path / "run")]
    assert main([*arguments, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "every row can be run by its agent and read by its environment" in said
    assert "harness codeact, model my-model" in said
    assert not (tmp_path / "run").exists()


def test_its_sampling_reaches_the_endpoint_top_k_too() -> None:
    config = load([str(VERIFIED)])
    tree = config.to_yaml()
    assert "agent_max_turns: 200" in tree
    agent = config.instances["swe_agent"]
    assert (agent.kind, agent.implementation) == ("agents", "swe")
    sampling = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
    dropped: list[str] = []
    server = config.settings("policy_model", OpenAIConfig)
    request = read_request("responses", {"input": "q", **sampling})
    sent = orjson.loads(endpoint_request(server, request, {}, dropped.append).body)
    assert {key: sent[key] for key in sampling} == sampling
    assert sent["model"] == "my-model"
    assert dropped == []
