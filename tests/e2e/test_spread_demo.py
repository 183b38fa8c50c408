"""Claims about the SWE demo with its sandboxes on two other machines: all processes of one of these are killed at a
random moment, and rewards are the right ones, no rollout is lost or doubled, and no sandbox is left.

Seeds   PADDOCK_FAULT_SEEDS, as `first:end`.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.conftest import HOME, ROOT
from tests.e2e.test_spread_faults import SEEDS, note, of_a_node
from tests.support.spread import CollectedRun, left_behind, use_images

from paddock.testing.machines import Machine, machines, why_no_machines
from paddock.testing.nodes import NodeMachine
from paddock.types import JsonObject

WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.long,
    pytest.mark.sandbox,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(1200),
]
TOKEN = "of-the-nodes"
PAID = {"codeact": 1.0, "codex": 1.0, "opencode": 1.0, "gold": 1.0, "null": 0.0, "noop": 0.0}
ENV = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "played"}
BACK_S = 8.0
"""Seconds after which a node is there again."""


class DemoNodes(NamedTuple):
    """The demo's command on the first machine, its sandboxes on the others."""

    machines: Sequence[Machine]
    nodes: Sequence[NodeMachine]

    def start(self, out: Path, log: Path) -> "subprocess.Popen[bytes]":
        head = self.machines[0]
        urls = ",".join(node.url for node in self.nodes)
        fields = f"node_token_file: {head.disk / 'token'}, lease_ttl_s: 6.0, answer_margin_s: 10.0, node_health_s: 2.0"
        words = [f"+{agent}.agents.swe.sandbox={{nodes: [{urls}], {fields}, node_poll_s: 0.2}}" for agent in PAID]
        words += [f"{agent}.agents.swe.artifacts_dir={head.disk / 'artifacts'}" for agent in PAID]
        more = ["--oracle", "--quiet", "--concurrency", "4", "--out", str(out)]
        command = [sys.executable, "-m", "paddock", "eval", str(ROOT / "configs/swe_demo.yaml"), *words, *more]
        with log.open("wb") as file:
            return head.start(command, cwd=ROOT, env=ENV, stdout=file, stderr=file)


@pytest.fixture(scope="module")
def demo(demo_rows: list[JsonObject]) -> Iterator[DemoNodes]:
    assert demo_rows
    with machines(3) as made:
        for machine in made:
            use_images(machine, HOME)
        nodes = [NodeMachine(machine, TOKEN) for machine in made[1:]]
        for node in nodes:
            node.serve()
        (made[0].disk / "token").write_text(TOKEN)
        yield DemoNodes(made, nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_processes_of_a_node_are_killed(demo: DemoNodes, seed: int) -> None:
    draw = random.Random(seed)
    node, at = draw.choice(demo.nodes), draw.randrange(1, 9)
    out, log = demo.machines[0].disk / f"run-{seed}", demo.machines[0].disk / f"run-{seed}.log"
    with demo.start(out, log) as running:
        try:
            until(lambda: n_ended(out) >= at and node.n_sandboxes(), running)
            # Every process but the machine's first, and the one that says so.
            node.machine.run(["sh", "-c", "kill -KILL -1"])
            time.sleep(BACK_S)
            assert node.serving is not None
            node.serving.communicate()
            node.serve()
            assert running.wait(600) == 0, log.read_text(errors="replace")[-4000:]
        finally:
            with suppress(ProcessLookupError):
                running.kill()
    run = CollectedRun(out)
    note(f"demo-killed seed {seed} after {at} rollouts: failed attempts {run.kinds()}")
    agents = {(line["_ng_task_index"], line["_ng_rollout_index"]): line["agent_ref"]["name"] for line in run.rollouts}
    assert run.rewards() == {member: PAID[agent] for member, agent in agents.items()}
    assert (len(run.counts()), run.counts().total()) == (3 * len(PAID), 3 * len(PAID))
    assert {one["outcome"] for one in run.failures} <= {"infra"}
    assert {one.name: lines for one in demo.machines if (lines := left_behind(one, of_a_node))} == {}


def n_ended(folder: Path) -> int:
    file = folder / "rollouts.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def until(holds: Callable[[], object], running: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
