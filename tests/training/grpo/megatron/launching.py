"""Processes of a policy on Megatron-core as tests start them: under the interpreter of an environment with vLLM."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
TIMEOUT_S = 800
MAKE = "import pathlib, sys, tests.training.grpo.megatron.tiny as t; t.make_models(pathlib.Path(sys.argv[1]))"


def make_models(python: str, folder: Path) -> None:
    _ended([_started(python, "-c", MAKE, str(folder))])


def launched(python: str, script: str, folder: Path, world_size: int, cases: Sequence[dict[str, Any]]) -> Any:
    """What rank 0 told. Each case has a port of its own."""
    ports = free_ports(len(cases))
    told = [{**case, "world_size": world_size, "port": port} for case, port in zip(cases, ports, strict=True)]
    command = (python, str(HERE / script), str(folder))
    out = _ended([_started(*command, str(rank), json.dumps(told)) for rank in range(world_size)])
    return json.loads(out.splitlines()[-1])


def free_ports(n: int) -> list[int]:
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    found = [one.getsockname()[1] for one in listening]
    for one in listening:
        one.close()
    return found


def _started(*command: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def _ended(processes: Sequence[subprocess.Popen[str]]) -> str:
    """Output of the first; the others are ended with one that fails."""
    try:
        told = [one.communicate(timeout=TIMEOUT_S) for one in processes]
    finally:
        for one in processes:
            one.kill()
    sys.stderr.write("".join(err for _, err in told))
    assert [one.returncode for one in processes] == [0] * len(processes), told[-1][1][-4000:]
    return told[0][0]
