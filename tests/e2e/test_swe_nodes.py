"""Claims about a SWE eval over two nodes: rewards are right and nothing is lost when one of them dies or hangs."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import aiohttp
import orjson
import pytest
import yaml
from tests.e2e.conftest import HOME, SweCase

from paddock.http.access import bearer
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]
TOKEN = "of-the-nodes"
ROLLOUTS = 4
"""Of each agent."""


class NodeProcess(NamedTuple):
    url: str
    process: subprocess.Popen[str]

    async def sandboxes(self) -> int:
        async with aiohttp.ClientSession(headers=bearer(TOKEN)) as session, session.get(self.url + "/status") as reply:
            return int((await reply.json())["sandboxes"])


@pytest.fixture
def homes() -> Iterator[list[Path]]:
    """Two homes with the images of one store, and sandboxes of their own."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-nodes-", dir="/var/tmp"))
    folder.chmod(0o711)
    homes = [folder / name for name in ("one", "other")]
    for home in homes:
        home.mkdir(mode=0o711)
        for part in ("images", "layers"):
            (home / part).symlink_to(HOME / part)
    yield homes
    shutil.rmtree(folder)


@pytest.fixture
def nodes(swe_case: SweCase, homes: list[Path], tmp_path: Path) -> Iterator[list[NodeProcess]]:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "node.yaml").write_text(
        "runtime: bubblewrap\nadmission: {memory_per_sandbox_mib: 64, max_sandboxes: 4}\n"
    )
    with ExitStack() as stack:
        nodes = []
        for home in homes:
            command = [sys.executable, "-m", "paddock", "sandbox", "serve", "--home", str(home)]
            files = ["--settings", str(tmp_path / "node.yaml"), "--token-file", str(tmp_path / "token")]
            process = stack.enter_context(subprocess.Popen([*command, *files], stdout=subprocess.PIPE, text=True))
            stack.callback(_end, process)
            assert process.stdout is not None
            nodes.append(NodeProcess(process.stdout.readline().strip(), process))
        yield nodes


def config_of(case: SweCase, nodes: list[NodeProcess], folder: Path) -> Path:
    """An agent that fixes what is asked for, and one that leaves something else; both take their time."""
    sandbox = {
        "nodes": [node.url for node in nodes],
        "node_token_file": str(folder / "token"),
        "lease_ttl_s": 4.0,
        "answer_margin_s": 10.0,
        "node_health_s": 2.0,
        "node_poll_s": 0.2,
    }
    fix = f"git apply <<'END'\n{case.row['patch']}\nEND"
    block = {**case.tree["codeact"]["agents"]["swe"], "harness": "script", "sandbox": sandbox}
    tree: JsonObject = {
        "environment": case.tree["environment"],
        "fixer": {"agents": {"swe": {**block, "harness_config": {"commands": ["sleep 5", fix]}}}},
        "idler": {"agents": {"swe": {**block, "harness_config": {"commands": ["sleep 5"]}}}},
        "policy": {"models_servers": {"replay": {}}},
    }
    rows = [{**case.row, "agent_ref": {"name": name}} for name in ("fixer", "idler")]
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (folder / "case.yaml").write_text(yaml.safe_dump(tree))
    return folder / "case.yaml"


def _end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGCONT)
    process.terminate()


async def until_busy(node: NodeProcess) -> None:
    async with asyncio.timeout(240):
        while await node.sandboxes() < 2:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGSTOP])
async def test_a_node_that_dies_or_hangs_costs_no_row_and_no_reward(
    swe_case: SweCase, nodes: list[NodeProcess], tmp_path: Path, how: signal.Signals
) -> None:
    config = config_of(swe_case, nodes, tmp_path)
    command = ["eval", str(config), "--rows", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "run"), "--quiet"]
    more = ["--repeats", str(ROLLOUTS), "--concurrency", str(2 * ROLLOUTS)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "paddock", *command, *more, env={**os.environ, "PADDOCK_HOME": str(HOME)}
    )
    try:
        await asyncio.gather(*map(until_busy, nodes))
        nodes[0].process.send_signal(how)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
    lines = [orjson.loads(line) for line in (tmp_path / "run/rollouts.jsonl").read_bytes().splitlines()]
    rewards = {
        name: [line["reward"] for line in lines if line["agent_ref"]["name"] == name] for name in ("fixer", "idler")
    }
    assert rewards == {"fixer": [1.0] * ROLLOUTS, "idler": [0.0] * ROLLOUTS}
    failures = [orjson.loads(line) for line in (tmp_path / "run/failures.jsonl").read_bytes().splitlines()]
    assert {one["outcome"] for one in failures} == {"infra"}
    assert {one["kind"] for one in failures} <= {"node_lost", "node_unreachable", "sandbox_gone"}
    assert await nodes[1].sandboxes() == 0
