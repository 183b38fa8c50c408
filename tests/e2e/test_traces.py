"""Claims about the trace of a SWE rollout: sandboxes, calls of the model and of tools, in real sandboxes."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.e2e.test_swe_eval import ASK_FOR_A_FIX
from tests.support.trace_collector import TraceCollector, collecting

from paddock.types import JsonObject
from paddock.types.responses import calls

pytestmark = [pytest.mark.sandbox, pytest.mark.long, pytest.mark.timeout(600)]


def trace_of(case: Any, folder: Path, agent: JsonObject, *arguments: str) -> TraceCollector:
    """What a collector gets of the oracle's rollout of the case's row, by its agent with these settings."""
    (folder / "rows.jsonl").write_bytes(orjson.dumps({"responses_create_params": {"input": []}, **case.row}))
    block = case.tree["codeact"]["agents"]["swe"]
    tree = {**case.tree, "codeact": {"agents": {"swe": {**block, **agent}}}}
    (folder / "case.yaml").write_text(yaml.safe_dump(tree))
    words: list[str | Path] = [sys.executable, "-m", "paddock", "eval", folder / "case.yaml", "--oracle", "--quiet"]
    more: list[str | Path] = ["--rows", folder / "rows.jsonl", "--out", folder / "run", *arguments]
    with collecting() as collector:
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        ended = subprocess.run([*words, *more], env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return collector


def line_of(folder: Path) -> JsonObject:
    line: JsonObject = orjson.loads((folder / "run/rollouts.jsonl").read_bytes())
    return line


def test_the_trace_of_a_swe_rollout_has_its_sandboxes_model_calls_and_tools(swe_case: Any, tmp_path: Path) -> None:
    collector = trace_of(swe_case, tmp_path, {})
    line = line_of(tmp_path)
    turns = line["rollout"]["turns"]
    (root,) = [span for span in collector.spans if not span.parent]
    paths = Counter(" > ".join(collector.path(span)[1:]) for span in collector.spans if span.parent)
    assert root.name == "invoke_agent codeact" and root.attributes["paddock.reward"] == line["reward"] == 1.0
    assert paths["chat replay"] == len(turns)
    for name, count in Counter(call.name for turn in turns for call in calls(turn["output"])).items():
        assert paths[f"execute_tool {name}"] == count
    assert paths["sandbox > sandbox create"] == paths["sandbox > sandbox patch"] == 1
    assert paths["verify > sandbox create"] == paths["verify > sandbox destroy"] > 0
    assert {span.trace for span in collector.spans} == {root.trace}
    asked = {span.attributes["gen_ai.tool.call.id"] for span in collector.named("execute_tool")}
    assert asked == {call.call_id for turn in turns for call in calls(turn["output"])}
    assert {span.attributes["gen_ai.response.id"] for span in collector.named("chat")} == {turn["id"] for turn in turns}


@pytest.mark.parametrize("spread", [(), ("--isolate",)])
def test_calls_of_a_program_in_the_sandbox_are_in_its_rollouts_trace(
    swe_case: Any, tmp_path: Path, spread: tuple[str, ...]
) -> None:
    agent = {"harness": "script", "harness_config": {"commands": [ASK_FOR_A_FIX, "git apply /tmp/fix.diff"]}}
    collector = trace_of(swe_case, tmp_path, agent, *spread)
    assert line_of(tmp_path)["reward"] == 1.0
    (call,) = collector.named("chat")
    apart = ["POST /run", "invoke_agent codeact", "POST /r/{secret}/v1/responses"] if spread else []
    assert collector.path(call) == ["invoke_agent codeact", *apart, "chat replay"]
