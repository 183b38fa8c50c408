"""Rollouts of an environment of verifiers over a real vLLM: what they train on is what went over the wire."""

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from tests.agents.verifiers.conftest import ENVIRONMENTS, PYTHON, ROOT, block, make_rows, needs_verifiers, variables
from tests.support.real_vllm import RealVllm

from paddock.cli import main
from paddock.tokens.export import RolloutSample

pytestmark = [*needs_verifiers, pytest.mark.vllm, pytest.mark.long]
COUNT, TURNS = 16, 3
Tokens = tuple[tuple[float, ...], ...]


def key(prompt: Sequence[int], sampled: Sequence[int], log_probs: Sequence[float]) -> Tokens:
    return (tuple(prompt), tuple(sampled), tuple(log_probs))


def test_what_is_trained_on_is_what_vllm_sampled_each_once(tmp_path: Path, real_vllm: RealVllm) -> None:
    assert PYTHON is not None
    make_rows("graded_text", tmp_path, "--count", str(COUNT))
    settings = block("graded_text", {"agent": {"harness": {"id": "local_chat"}, "max_turns": TURNS}}, python=None)
    agent = settings["agent"]["agents"]["verifiers"]
    model = {"type": "models_servers", "name": "policy"}
    (tmp_path / "agent.json").write_text(json.dumps({**agent, "model_server": model}))
    before = len(real_vllm.calls)
    command = [PYTHON, "-m", "tests.agents.verifiers.drive_vllm", str(tmp_path), real_vllm.url]
    subprocess.run(command, check=True, env=variables([ENVIRONMENTS]), cwd=ROOT, timeout=400)
    wire = real_vllm.calls[before:]
    rollouts = [orjson.loads(line) for line in (tmp_path / "rollouts.jsonl").read_bytes().splitlines()]
    assert [one["rollout"]["outcome"] for one in rollouts] == ["truncated"] * COUNT
    assert sum(len(one["rollout"]["turns"]) for one in rollouts) == len(wire) == COUNT * TURNS
    out = tmp_path / "samples.jsonl"
    assert main(["samples", str(tmp_path / "rollouts.jsonl"), "--mode", "branch", "--out", str(out)]) == 0
    samples = [RolloutSample.from_wire(orjson.loads(line)).sample for line in out.read_bytes().splitlines()]
    exported = Counter(
        key(one.ids[: span.start], one.ids[span.start : span.end], one.log_probs[span.start : span.end])
        for one in samples
        for span in one.spans
        if span.trained
    )
    assert exported == Counter(key(call.prompt_ids, call.sampled_ids, call.log_probs) for call in wire)
    assert sum(exported.values()) == len(exported)
    assert max(sum(span.trained for span in one.spans) for one in samples) == TURNS
