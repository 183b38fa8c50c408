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
from tests.support.trace_collector import collecting

from paddock.types.responses import calls

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_trace_of_a_swe_rollout_has_its_sandboxes_model_calls_and_tools(swe_case: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(orjson.dumps({"responses_create_params": {"input": []}, **swe_case.row}))
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(swe_case.tree))
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "paddock",
        "eval",
        tmp_path / "case.yaml",
        "--rows",
        tmp_path / "rows.jsonl",
    ]
    with collecting() as collector:
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        ended = subprocess.run(
            [*command, "--oracle", "--quiet", "--out", tmp_path / "run"], env=env, capture_output=True, text=True
        )
    assert ended.returncode == 0, ended.stderr
    line = orjson.loads((tmp_path / "run/rollouts.jsonl").read_bytes())
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
