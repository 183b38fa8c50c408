"""Claims about a training run over four machines, with policy, engine, rollouts and sandboxes apart: its rewards,
samples, metrics and weights are those of the same run on one machine.

Model   calls CodeAct's tools at random, and with some luck mends the bug: rewards differ within groups, and the policy
        learns from that.
Exact   answers have seeds of their own, and the engine makes one at a time and keeps nothing of prompts: no answer
        depends on what else runs. So all is the same to the last bit; nothing is compared within a tolerance.
"""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson
import pytest
import yaml
from tests.e2e.learning import runs, swe
from tests.support import small_bug
from tests.support.real_vllm import tiny_model
from tests.support.spread import CollectedRun, Member, left_behind, use_images

from paddock.http import rollout_from_wire
from paddock.sandbox import SandboxError
from paddock.sandbox.remote.ray_lister import LABEL
from paddock.testing.machines import Machine, MachineProcess, machines, why_no_machines
from paddock.testing.nodes import PORT, NodeMachine
from paddock.testing.ray_cluster import RayCluster
from paddock.testing.sandboxes import sandbox_home
from paddock.tokens.export import rollout_samples
from paddock.types import JsonObject

WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.sandbox,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(2 * runs.RUN_S),
]
STEPS, PROMPTS, MEMBERS = 3, 2, 4
TOKEN = "of-the-nodes"
COMMANDS = (
    "sed -i 's/a - b/a + b/' calc.py",
    "sed -i 's/return/retrun/' calc.py",
    "cat calc.py",
    "cat README",
    "git diff",
    "echo ok",
)
"""None whose output tells the time."""
TIMES = re.compile(r"(^|/)timing/|_s(/|$)")
"""In the names of metrics: a span of time, or what is counted by second."""


class TrainingRun(NamedTuple):
    """What a run left in its folder."""

    folder: Path
    rollouts: CollectedRun

    @property
    def lines(self) -> list[JsonObject]:
        """Of `metrics.jsonl`, by step."""
        return [orjson.loads(line) for line in (self.folder / "metrics.jsonl").read_bytes().splitlines()]

    def metrics(self) -> list[JsonObject]:
        """By step, without times."""
        return [
            {name: value for name, value in line["metrics"].items() if not TIMES.search(name)} for line in self.lines
        ]

    def samples(self) -> dict[Member, list[JsonObject]]:
        """The exact samples of each rollout: ids, mask and log-probs."""
        read = (rollout_from_wire(line) for line in self.rollouts.rollouts)
        return {
            (rollout.row.stamp.group_id or 0, rollout.row.stamp.member or 0): [
                exact.sample.model_dump(exclude={"spans"}) for exact in rollout_samples(rollout, "whole")
            ]
            for rollout in read
        }

    def weights(self) -> bytes:
        return (self.folder / "export" / "model.safetensors").read_bytes()


class MachineLoad(NamedTuple):
    """What ran on a machine at once."""

    roles: int = 0
    """Processes of the run."""
    engines: int = 0
    sandboxes: int = 0
    """Of agents."""

    def most(self, other: "MachineLoad") -> "MachineLoad":
        return MachineLoad(*map(max, self, other))


class TrainingMachines:
    """Four machines: on the first a run is started; the third and the fourth are nodes of sandboxes."""

    def __init__(self, made: Sequence[Machine], home: Path, python: str) -> None:
        self.made = made
        self.model = tiny_model(swe.HOME, python, runs.ROOT, harness="codeact", commands=COMMANDS)
        self._python = python
        for machine in made:
            use_images(machine, home)
        rows = ({**small_bug.row("agent"), "instance_id": f"small__bug-{nth}"} for nth in range(STEPS * PROMPTS))
        self.rows = made[0].disk / "rows.jsonl"
        self.rows.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def alone(self) -> TrainingRun:
        """The run on the first machine."""
        words = self._command("alone", {"runtime": "bubblewrap"}, {})
        with self._log("alone").open("wb") as log:
            process = self.made[0].start([self._python, *words], **self._options(log))
        return self._ended("alone", process)

    def spread(self) -> tuple[TrainingRun, list[MachineLoad]]:
        """The run on all of them, and the most that each had to do."""
        head, engines, *others = self.made
        nodes = [NodeMachine(machine, TOKEN) for machine in others]
        for node in nodes:
            node.serve()
        cluster = RayCluster(self.made, Path(self._python), cpus=1, object_store_mib=100)
        cluster.start(head)
        cluster.start(engines)
        cluster.start(*others, labels={LABEL: str(PORT)})
        labels = {"policy": "node=m1", "engines": "node=m2", "rollouts": "node=m3"}
        sandbox = {"nodes": "ray", "node_token_file": str(others[0].disk / "token")}
        words = self._command("spread", sandbox, {"cluster": {"address": "auto", "labels": labels}})
        with self._log("spread").open("wb") as log:
            process = cluster.driver(words, **self._options(log))
        most = [MachineLoad()] * len(self.made)
        while process.poll() is None:
            counts = [0, 0, *(node.n_sandboxes() for node in nodes)]
            loads = (load_of(machine, count) for machine, count in zip(self.made, counts, strict=True))
            most = [before.most(load) for before, load in zip(most, loads, strict=True)]
            time.sleep(0.5)
        return self._ended("spread", process), most

    def _command(self, name: str, sandbox: JsonObject, more: JsonObject) -> list[str]:
        file = self.made[0].disk / f"{name}.yaml"
        file.write_text(yaml.safe_dump({**config(self.rows, self.model, sandbox), **more}))
        return ["-m", "paddock", "train", str(file), "--out", str(self.made[0].disk / name)]

    def _log(self, name: str) -> Path:
        return self.made[0].disk / f"{name}.log"

    def _options(self, log: IO[bytes]) -> dict[str, Any]:
        return {"stdout": log, "stderr": log, "cwd": runs.ROOT}

    def _ended(self, name: str, process: MachineProcess) -> TrainingRun:
        with process:
            assert process.wait(runs.RUN_S) == 0, self._log(name).read_text()[-4000:]
        folder = self.made[0].disk / name
        return TrainingRun(folder, CollectedRun(folder))


def load_of(machine: Machine, sandboxes: int) -> MachineLoad:
    lines = machine.run(["ps", "-ww", "-e", "-o", "args="]).splitlines()
    roles, engines = (sum(word in line for line in lines) for word in ("ray::_RoleHost", "-m vllm.entrypoints"))
    return MachineLoad(roles, engines, sandboxes)


def config(rows: Path, model: Path, sandbox: JsonObject) -> JsonObject:
    """`sandbox`: where agents work."""
    agent: JsonObject = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
        "harness": "codeact",
        "agent_max_turns": 5,
        "sandbox": sandbox,
        "limits": {"memory_mib": 256},
        "admission": {"cores_per_sandbox": 0.1},
    }
    return {
        "grpo": {
            "num_prompts_per_step": PROMPTS,
            "num_generations_per_prompt": MEMBERS,
            "max_num_steps": STEPS,
            "async_grpo": {"enabled": False},
        },
        "policy": {
            "model_name": str(model),
            "max_total_sequence_length": 8192,
            "precision": "float32",
            "optimizer": {"kwargs": {"lr": 1.0e-3}},
            "torch_cfg": {"device": "cpu"},
            "generation": {
                "seeded": True,
                "max_new_tokens": 120,
                "vllm": {
                    "tool_parser": "hermes",
                    "reasoning_parser": "qwen3",
                    "health_timeout_s": 60,
                    "launch": {
                        "device": "cpu",
                        "kv_cache_gib": 1,
                        "enforce_eager": True,
                        "max_num_seqs": 1,
                        "serve_kwargs": {"enable-prefix-caching": False, "enable-chunked-prefill": False},
                    },
                },
            },
        },
        "data": {"train": {"data_path": str(rows)}},
        "env": {
            "nemo_gym": {
                "config_paths": ["resources_servers/swe/configs/swe.yaml"],
                "environment": {"resources_servers": {"swe": {"sandbox": {"runtime": "bubblewrap"}}}},
                "agent": {"agents": {"swe": agent}},
            }
        },
    }


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            small_bug.put_image(folder)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


def test_a_run_over_four_machines_is_that_of_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = runs.vllm_python()
    # Of what runs on the machines, Ray's own processes too.
    monkeypatch.setenv("PYTHONPATH", f"{runs.ROOT / 'src'}:{runs.ROOT}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    with machines(4) as made:
        stand = TrainingMachines(made, home, python)
        alone = stand.alone()
        assert left_behind(made[0], lambda _: False) == []
        spread, loads = stand.spread()
        assert [load.roles for load in loads] == [1, 1, 1, 0]
        assert [load.engines > 0 for load in loads] == [False, True, False, False]
        assert [load.sandboxes > 0 for load in loads] == [False, False, True, True]
        assert spread.rollouts.counts() == alone.rollouts.counts()
        assert alone.rollouts.counts().total() == len(alone.rollouts.counts()) == STEPS * PROMPTS * MEMBERS
        assert (alone.rollouts.failures, spread.rollouts.failures) == ([], [])
        assert spread.rollouts.rewards() == alone.rollouts.rewards()
        assert {*alone.rollouts.rewards().values()} == {0.0, 1.0}
        assert spread.samples() == alone.samples()
        records = spread.rollouts.records()
        assert [key for key, record in alone.rollouts.records().items() if records[key] != record] == []
        assert spread.metrics() == alone.metrics()
        assert [line["step"] for line in alone.lines] == [1, 2, 3]
        assert spread.weights() == alone.weights()
        assert spread.weights() != (stand.model / "model.safetensors").read_bytes()
