"""Runs of environments of verifiers by its own command and by ours, over one scripted model."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from paddock.testing.upstream import ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject

PYTHON = os.environ.get("PADDOCK_VERIFIERS_PYTHON")
ROOT = Path(__file__).parents[3]
ENVIRONMENTS = Path(__file__).with_name("environments")
PADDOCK = Path(sys.executable).with_name("paddock")
LIMIT_S = 540
Reply = Callable[[JsonObject, int], ScriptedAnswer]
Settings = Mapping[str, Any]

needs_verifiers = [
    pytest.mark.trainer,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PYTHON is None, reason="PADDOCK_VERIFIERS_PYTHON: no environment with verifiers"),
]


class Runs(NamedTuple):
    """What both made of the same tasks."""

    theirs: list[JsonObject]
    """Traces by verifiers."""
    ours: list[JsonObject]
    """Rollouts."""


def variables(folders: Sequence[Path]) -> dict[str, str]:
    """Those of a process of verifiers' in which its modules are found, and `uv` beside its Python."""
    assert PYTHON is not None
    places = [ROOT / "src", ROOT, *folders]
    path = os.pathsep.join([str(Path(PYTHON).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), "PATH": path}


def make_rows(environment: str, folder: Path, *options: str, at: Path = ENVIRONMENTS) -> Path:
    """The rows of an environment, by its command."""
    assert PYTHON is not None
    command = [PYTHON, "-m", "paddock.agents.verifiers.rows", environment, "--path", str(at), *options]
    lines = subprocess.run(command, check=True, env=variables([at]), stdout=subprocess.PIPE, timeout=LIMIT_S).stdout
    path = folder / "rows.jsonl"
    path.write_bytes(lines)
    return path


def block(environment: str, env: Settings, *, at: Path = ENVIRONMENTS, **settings: Any) -> JsonObject:
    """A config with an agent over the environment."""
    agent = {
        "python": PYTHON,
        "resources_server": {"type": "resources_servers", "name": "tasks"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
        "environment": environment,
        "path": [str(at)],
        "env": env,
        **settings,
    }
    return {"tasks": {"resources_servers": {"verifiers": {}}}, "agent": {"agents": {"verifiers": agent}}}


async def run_ours(folder: Path, config: JsonObject, rows: Path, url: str, *more: str) -> list[JsonObject]:
    """The rollouts of `paddock eval` that have a reward; those that failed are in `ours/failures.jsonl`."""
    model = {"base_url": url, "model": "scripted", "api_key": "none"}
    path = folder / "config.yaml"
    path.write_text(json.dumps({**config, "policy_model": {"models_servers": {"openai": model}}}))
    out = folder / "ours"
    words = [PADDOCK, "eval", path, "--rows", rows, "--out", out, "eval.max_attempts=1", *more]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    await asyncio.to_thread(
        subprocess.run, list(map(str, words)), check=False, timeout=LIMIT_S, env={**os.environ, "PYTHONPATH": paths}
    )
    return read_lines(out / "rollouts.jsonl")


async def run_theirs(
    folder: Path, environment: str, env: Settings, url: str, *, at: Path = ENVIRONMENTS, **settings: Any
) -> list[JsonObject]:
    """The traces of `vf-eval`."""
    assert PYTHON is not None
    taskset = {**(env.get("taskset") or {}), "id": environment}
    given = {
        "model": "scripted",
        "push": False,
        "output_dir": str(folder / "theirs"),
        "client": {"type": "eval", "base_url": url, "api_key_var": "NO_SUCH_KEY"},
        "env": {**env, "taskset": taskset},
        **settings,
    }
    (folder / "run.json").write_text(json.dumps(given))
    command = [str(Path(PYTHON).with_name("vf-eval")), "@", str(folder / "run.json"), "--no-rich"]
    ended = await asyncio.to_thread(
        subprocess.run, command, env=variables([at]), cwd=folder, capture_output=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    (written,) = (folder / "theirs").glob("*/traces.jsonl")
    episodes = [orjson.loads(line) for line in written.read_bytes().splitlines()]
    return [{**trace, "episode": episode} for episode in episodes for trace in episode["traces"]]


async def run_both(
    folder: Path, environment: str, env: Settings, reply: Reply, *, at: Path = ENVIRONMENTS, rows: Sequence[str] = ()
) -> Runs:
    """Run all tasks by both."""
    path = make_rows(environment, folder, *rows, at=at)
    async with ScriptedUpstream(reply) as upstream:
        ours = await run_ours(folder, block(environment, env, at=at), path, upstream.url)
    local = {"runtime": {"type": "subprocess"}, "harness": {"id": "null"}}
    seat = {**local, **(env.get("agent") or {})}
    limit = {"select": {"limit": len(ours)}}
    async with ScriptedUpstream(reply) as upstream:
        theirs = await run_theirs(folder, environment, {**env, "agent": seat}, upstream.url, at=at, **limit)
    return Runs(theirs, ours)


def read_lines(path: Path) -> list[JsonObject]:
    """Its lines; none where there is no file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def by_task(traces: Sequence[JsonObject]) -> dict[int, JsonObject]:
    """What verifiers says of each task: by its index, rewards, metrics and how it stopped."""
    return {
        trace["task"]["data"]["idx"]: {
            "rewards": trace["rewards"],
            "metrics": trace["metrics"],
            "stop": trace["stop_condition"],
            "messages": [_said(node["message"]) for node in trace["nodes"]],
        }
        for trace in traces
    }


def _said(message: JsonObject) -> JsonObject:
    """A message without what it does not have, which one of two records leaves out."""
    return {name: value for name, value in message.items() if value is not None}


def our_traces(rollouts: Sequence[JsonObject]) -> list[JsonObject]:
    """The traces in our rollouts."""
    return [rollout["response"]["verifiers"]["traces"][0] for rollout in rollouts]


def running_with(mark: bytes) -> list[bytes]:
    """Command lines of `sleep` with a mark, which tells what an episode started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return [command for command in found if mark in command and b"sleep" in command]
