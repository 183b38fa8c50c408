"""A harness that lives outside the package works in an evaluation like any of ours, over a real sandbox."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from paddock.cli import main
from paddock.sandbox import SandboxError
from paddock.testing.sandboxes import repository_image, sandbox_home, store_of
from paddock.types import JsonObject
from paddock.types.responses import item_type, output_items

pytestmark = pytest.mark.sandbox
HERE = Path(__file__).parent
PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "calc", {"calc.py": "def add(a, b):\n    return a - b\n"})
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


def evaluated(folder: Path, home: Path, **settings: object) -> JsonObject:
    """The one rollout of an evaluation with known-good turns."""
    agent = {
        "resources_server": {"type": "resources_servers", "name": "world"},
        "model_server": {"type": "models_servers", "name": "policy"},
        "harness": "my_harness:MyHarness",
        "harness_config": settings,
        "sandbox": {"home": str(home), "runtime": "bubblewrap"},
        "limits": {"memory_mib": 512},
    }
    tree = {"world": {"resources_servers": {"my_world:MyWorld": {}}}, "agent": {"agents": {"swe": agent}}}
    (folder / "case.yaml").write_text(yaml.safe_dump(tree))
    row = {"responses_create_params": {"input": []}, "image": "calc", "patch": PATCH}
    (folder / "rows.jsonl").write_bytes(orjson.dumps(row))
    words = ["--oracle", "--rows", str(folder / "rows.jsonl"), "--out", str(folder / "run"), "--quiet"]
    assert main(["eval", str(folder / "case.yaml"), *words]) == 0
    (line,) = (folder / "run" / "rollouts.jsonl").read_bytes().splitlines()
    rollout: JsonObject = orjson.loads(line)
    return rollout


@pytest.mark.slow
def test_a_harness_from_outside_works_in_an_evaluation(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(HERE)
    rollout = evaluated(tmp_path, home, options={"max_output_chars": 12})
    assert (rollout["reward"], rollout["rollout"]["outcome"]) == (1.0, "completed")
    assert len(rollout["rollout"]["turns"]) == rollout["response"]["harness"]["turns"] == 4
    assert rollout["response"]["harness"]["name"] == "my_harness:MyHarness"
    items = output_items(rollout["response"])
    assert [item["name"] for item in items if item_type(item) == "function_call"] == [
        "bash",
        "replace",
        "bash",
        "finish",
    ]
