"""Processes of a policy on Megatron-core as tests start them: under the interpreter of an environment with vLLM."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from paddock.ports import free_ports

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
TIMEOUT_S = 800.0
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


class MegatronRun(NamedTuple):
    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]


def _started(*command: str) -> MegatronRun:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
    return MegatronRun(subprocess.Popen(command, stdout=out, stderr=err, env=env), out, err)


def _ended(started: Sequence[MegatronRun]) -> str:
    """Output of the first; where one fails, the others would wait for it."""
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while any(one.process.poll() is None for one in started) and time.monotonic() < deadline:
            if any(one.process.returncode for one in started):
                break
            time.sleep(0.05)
        codes = [one.process.poll() for one in started]
        said = [_text(one.err) for one in started]
        failed = next((nth for nth, code in enumerate(codes) if code), 0)
        assert codes == [0] * len(started), f"{codes}: {said[failed][-4000:]}"
        return _text(started[0].out)
    finally:
        for one in started:
            one.process.kill()
            one.process.wait()
            one.out.close()
            one.err.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
