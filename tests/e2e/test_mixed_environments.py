"""The claim that one training run takes rows of six environments, ours and others', by their weights: a real vLLM, real
sandboxes, the environments' own code; each is judged, counted and trained on.
"""

import os
from collections import Counter
from pathlib import Path

import orjson
import pytest
import yaml
from tests.e2e.learning import mixture, runs, swe, swe_run
from tests.support.real_vllm import tiny_model

from paddock.http import rollout_from_wire

pytestmark = [pytest.mark.sandbox, pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]


def interpreter(variable: str) -> str:
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} is not set")
    return python


def test_a_step_is_trained_on_rows_of_all_environments(tmp_path: Path) -> None:
    others = {
        "verifiers_python": interpreter("PADDOCK_VERIFIERS_PYTHON"),
        "gym_python": interpreter("PADDOCK_NEMO_GYM_PYTHON"),
    }
    model = tiny_model(swe.HOME, runs.vllm_python(), runs.ROOT, harness="codeact")
    rows = mixture.rows()
    assert len(rows) == mixture.N_ROWS
    (tmp_path / swe_run.ROWS).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    path = tmp_path / "mixed.yaml"
    path.write_text(yaml.safe_dump(mixture.config(tmp_path, model, **others)))
    out = tmp_path / "run"
    runs.call("-m", "paddock", "train", path, "--out", out)
    [step] = runs.lines(out)
    metrics = step["metrics"]
    of_all = {agent: metrics[f"train/agent/{agent}/groups"] for agent in mixture.AGENTS}
    assert of_all == dict.fromkeys(mixture.AGENTS, mixture.PROMPTS / len(mixture.AGENTS))
    failed = {agent: metrics[f"train/agent/{agent}/failed_rate"] for agent in mixture.AGENTS}
    assert failed == dict.fromkeys(mixture.AGENTS, 0.0)
    assert sum(metrics[f"train/agent/{agent}/tokens"] for agent in mixture.AGENTS) == metrics["train/tokens"] > 0
    rollouts = [rollout_from_wire(line) for line in _lines(out / "rollouts.jsonl")]
    judged = Counter(rollout.row.agent_ref.name for rollout in rollouts if rollout.row.agent_ref and rollout.verdict)
    assert set(judged) == set(mixture.AGENTS)
    assert all(rollout.turns for rollout in rollouts), "every environment's tokens are recorded"


def _lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]
