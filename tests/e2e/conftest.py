"""`play_fixes`: rows through harnesses with `--oracle`, all in one run of `paddock eval`, in real sandboxes.

Images are built from released source distributions where they are not there yet; they stay below `PADDOCK_HOME`, else
in /var/tmp.
"""

import asyncio
import os
import shutil
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
import pytest
import yaml

from paddock.cli import main
from paddock.errors import PaddockError
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import build_image
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.tools import kind_of
from paddock.types import JsonObject, Row
from paddock.types.responses import ToolCall, calls

ROOT = Path(__file__).parents[2]
HOME = Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")


class FixRollout:
    """A rollout of a known fix."""

    def __init__(self, line: JsonObject) -> None:
        self.line = line
        self.reward = line["reward"]
        self.rollout: JsonObject = line["rollout"]
        self.turns: list[JsonObject] = self.rollout["turns"]
        self.patch = str(line["response"]["model_patch"])

    @property
    def calls(self) -> list[ToolCall]:
        return [call for turn in self.turns for call in calls(turn["output"])]

    def problems(self) -> tuple[str, ...]:
        """What is wrong with it as a fix that was made with the harness's own tools, and paid; none: it is one."""
        calls, harness = self.calls, self.line["response"]["harness"]
        edits = [call for call in calls if kind_of(call.name) == "edit"]
        changed = [line.split(" b/")[-1] for line in self.patch.splitlines() if line.startswith("diff --git ")]
        verdict = self.rollout["verdict"]
        claims = {
            f"reward {self.reward}, {verdict['reason']}: {verdict['detail']}": self.reward == 1.0,
            f"ended by {harness['ended']}": harness["ended"] == "finished",
            f"malformed calls: {harness['malformed']}": not harness["malformed"],
            f"{len(self.turns)} turns": len(self.turns) >= 4,
            "a turn that continues no other": all(turn["parent"] == last["id"] for last, turn in pairwise(self.turns)),
            "no change": bool(changed),
            "no command": any(kind_of(call.name) == "shell" for call in calls),
            "`git apply`": not any("git apply" in call.arguments for call in calls),
        }
        unedited = [path for path in changed if not any(path in call.arguments for call in edits)]
        return (*(what for what, holds in claims.items() if not holds), *(f"{path}: by no edit" for path in unedited))


class PlayFixes(Protocol):
    def __call__(
        self, folder: Path, rows: Iterable[JsonObject], agents: Mapping[str, JsonObject], *arguments: str
    ) -> dict[tuple[str, str], FixRollout]: ...


@pytest.fixture(scope="session")
def play_fixes() -> PlayFixes:
    """Rollouts by agent and instance; `agents`: blocks of SWE agents by name; a row is of the agent that its
    `agent_ref` names, else of each."""

    def play(
        folder: Path, rows: Iterable[JsonObject], agents: Mapping[str, JsonObject], *arguments: str
    ) -> dict[tuple[str, str], FixRollout]:
        if shutil.which("bwrap") is None:
            pytest.skip("no bubblewrap on this machine")
        listed = [row for given in rows for row in _per_agent(given, agents)]
        _build(listed)
        (folder / "rows.jsonl").write_bytes(b"\n".join(orjson.dumps(row) for row in listed))
        (folder / "case.yaml").write_text(yaml.safe_dump(_config(agents)))
        command = ["eval", str(folder / "case.yaml"), "--rows", str(folder / "rows.jsonl"), "--oracle", "--quiet"]
        status = main([*command, "--out", str(folder / "run"), *arguments])
        failures = folder / "run/failures.jsonl"
        assert status == 0, failures.read_text() if failures.exists() else "refused"
        # What is played has no ids: all of it is masked, and NeMo-RL would take it.
        assert main(["samples", "check", str(folder / "run")]) == 3
        lines = map(orjson.loads, (folder / "run/rollouts.jsonl").read_bytes().splitlines())
        return {(line["agent_ref"]["name"], line["instance_id"]): FixRollout(line) for line in lines}

    return play


class SweCase(NamedTuple):
    """A row of ours whose image is there, and the servers that it runs with."""

    row: JsonObject
    tree: JsonObject
    """Agent `codeact`, resources server `environment`; a model server `policy` is not among them."""


@pytest.fixture(scope="session")
def swe_case() -> SweCase:
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    row = {**_demo_rows()[0], "agent_ref": {"name": "codeact"}}
    _build([row])
    return SweCase(row, _config({"codeact": {"harness": "codeact"}}))


@pytest.fixture(scope="session")
def demo_rows() -> list[JsonObject]:
    """The rows of the demo, whose images are there."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    rows = _demo_rows()
    _build(rows)
    return rows


def _demo_rows() -> list[JsonObject]:
    file = ROOT / "resources_servers" / "swe" / "data" / "example.jsonl"
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


def _per_agent(row: JsonObject, agents: Iterable[str]) -> list[JsonObject]:
    full = {"responses_create_params": {"input": []}, **row}
    return [full] if "agent_ref" in row else [{**full, "agent_ref": {"name": name}} for name in agents]


def _build(rows: Iterable[JsonObject]) -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    store = ImageStore(HOME, payload_id=SandboxSettings().payload_id)
    for instance in {one.image: one for one in (read(Row.from_wire(row)) for row in rows)}.values():
        assert instance.build is not None
        try:
            asyncio.run(build_image(store, instance.image, instance.build))
        except (PaddockError, OSError) as error:
            pytest.skip(f"the image of {instance.instance_id} can't be built here: {error}")


def _config(agents: Mapping[str, JsonObject]) -> JsonObject:
    sandbox = {"home": str(HOME), "runtime": "bubblewrap"}
    block: JsonObject = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
        "sandbox": sandbox,
        "limits": {"memory_mib": 1024},
    }
    tree: dict[str, Any] = {name: {"agents": {"swe": {**block, **given}}} for name, given in agents.items()}
    return {"environment": {"resources_servers": {"swe": {"sandbox": sandbox}}}, **tree}
