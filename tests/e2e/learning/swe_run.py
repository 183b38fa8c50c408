"""`paddock train` on SWE rows: a small run of the asynchronous loop, one of whose sandboxes is killed from outside.

Order   the first group is trained on, and new weights are sent, while the second one works in its sandboxes: its shells
        are held until then, each in its first command, and so are those of the third until the second has ended.
Killed  one of the second group's, after the new weights were sent.
Weights decay by a visible part at each step: no reward of these rollouts differs from another, and an engine that kept
        the old weights would show all the same.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil
import yaml
from tests.e2e.learning import runs, swe
from tests.support.processes import CommandProcess, gone, running
from tests.support.real_vllm import tiny_model

from paddock.http import rollout_from_wire
from paddock.types import JsonObject, Rollout

MEMBERS = 4
TURNS = 6
ANSWER_TOKENS = 120
MAX_TOKENS = 16384
FIRST, SECOND, THIRD = "sqlparse", "mistune", "boltons"
"""In the names of the instances, by row."""
LOOK_S = 0.2
QUIET_S = 600.0
"""Seconds that a command may say nothing: longer than shells are held, but a policy that acts at random also starts
programs that wait for a word (`python`)."""
ROWS = "rows.jsonl"


class FinishedRun(NamedTuple):
    """A run that has ended, and nothing of which is left."""

    out: Path
    pids: list[int]
    """Process ids of all its processes."""
    sandboxes_left: list[Path]
    processes_left: bool

    def lines(self, name: str) -> list[dict[str, Any]]:
        return _lines(self.out, name)

    @property
    def steps(self) -> list[dict[str, Any]]:
        return runs.lines(self.out)

    @property
    def rollouts(self) -> list[Rollout]:
        return [rollout_from_wire(line) for line in self.lines("rollouts.jsonl")]


def config(folder: Path, model: Path, *, steps: int, rerolls: int) -> JsonObject:
    """`folder`: with the rows."""
    launch: JsonObject = {"device": "cpu", "max_num_seqs": 16, "kv_cache_gib": 1, "enforce_eager": True}
    launch["folder"] = str(folder / "vllm")
    patient = {"command_timeout_s": runs.RUN_S, "harness_config": {"options": {"no_change_timeout_s": QUIET_S}}}
    servers = swe.servers({"agent": {"agent_max_turns": TURNS, **patient}})
    return {
        "grpo": {
            "num_prompts_per_step": 1,
            "num_generations_per_prompt": MEMBERS,
            "max_num_steps": steps,
            "max_num_epochs": 10,
            "async_grpo": {
                "max_trajectory_age_steps": 1,
                "in_flight_weight_updates": True,
                "recompute_kv_cache_after_weight_updates": True,
            },
        },
        "policy": {
            "model_name": str(model),
            "max_total_sequence_length": MAX_TOKENS,
            "precision": "float32",
            "optimizer": {"kwargs": {"lr": 1.0e-3, "weight_decay": 20.0}},
            "torch_cfg": {"device": "cpu"},
            "generation": {
                "max_new_tokens": ANSWER_TOKENS,
                "vllm": {"tool_parser": "hermes", "reasoning_parser": "qwen3", "launch": launch},
            },
        },
        "data": {"train": {"data_path": str(folder / ROWS)}, "shuffle": False},
        "env": {
            "nemo_gym": {
                "config_paths": ["resources_servers/swe/configs/swe.yaml"],
                "eval": {"max_attempts": 1},
                **servers,
            }
        },
        "checkpointing": {"save_period": 1, "keep_top_k": 1},
        "paddock": {"groups": {"max_rerolls": rerolls, "repair": "leave_one_out"}},
    }


def train(folder: Path, *, steps: int, rerolls: int) -> FinishedRun:
    """To its end; one sandbox of the second group is killed."""
    python = runs.vllm_python()
    rows = swe.built(FIRST, SECOND, THIRD)
    (folder / ROWS).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    model = tiny_model(swe.HOME, python, runs.ROOT, harness="codeact")
    path = folder / "swe.yaml"
    path.write_text(yaml.safe_dump(config(folder, model, steps=steps, rerolls=rerolls)))
    out = folder / "run"
    env = runs.environment()
    with running("paddock", "train", path, "--out", out, python=python, env=env, cwd=runs.ROOT) as command:
        watcher = _Watcher(command, out)
        watcher.watch()
        assert command.code() == 0, command.output()
        left = not gone(list(watcher.seen), within_s=120)
    pids = [process.pid for process in watcher.seen]
    return FinishedRun(out, pids, swe.left_of(pids), left)


class _Watcher:
    """Who looks at a run from outside, and interferes."""

    def __init__(self, command: CommandProcess, out: Path) -> None:
        self.seen: set[psutil.Process] = set()
        """All its processes, as far as one sees them who looks often."""
        self.killed = False
        self._command = command
        self._out = out
        self._held: dict[str, list[swe.LiveSandbox]] = {SECOND: [], THIRD: []}
        self._over: dict[str, Callable[[], bool]] = {
            SECOND: lambda: bool(_lines(out, "metrics.jsonl")),
            THIRD: lambda: any(group["id"] == 1 for group in _lines(out, "groups.jsonl")),
        }

    def watch(self) -> None:
        """Until it has ended."""
        itself, end = psutil.Process(self._command.pid), time.monotonic() + runs.RUN_S
        while itself.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end, self._command.output()
            self._look()
            time.sleep(LOOK_S)
        assert self.killed, self._command.output()

    def _look(self) -> None:
        self.seen.update(self._command.family())
        live = swe.of_rollouts([process.pid for process in self.seen])
        for instance, over in self._over.items():
            held = self._held[instance]
            if not over():
                held += [one for one in live if instance in one.instance and one not in held and one.hold()]
            elif held:
                self._let_go(instance)

    def _let_go(self, instance: str) -> None:
        # One whose shell was stopped while it opened is given up for another: nothing of it is there to be killed.
        held = [sandbox for sandbox in self._held[instance] if sandbox.processes()]
        self._held[instance] = []
        if instance == SECOND and held and not self.killed:
            held.pop().kill()
            self.killed = True
        for sandbox in held:
            sandbox.let_go()


def _lines(out: Path, name: str) -> list[dict[str, Any]]:
    """Whole ones."""
    path = out / name
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [orjson.loads(line) for line in lines if line.endswith(b"\n")]
