"""Where publishers' own code is: what some data sets are graded by, and no package of paddock's has.

Code    is run neither in this process nor in a sandbox with the policy's code: `publisher_parsers` runs it in a process
        of its own, under the interpreter that has it, and within the processor's time that a log may take.
Errors  RowError `publisher_missing` names the key and what to install; VerifierError where the process fails otherwise.
"""

import asyncio
import json
import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from paddock.errors import RowError, VerifierError
from paddock.processes import reap
from paddock.resources_servers.swe import publisher_parsers
from paddock.resources_servers.swe.instance import LogReader

PROGRAM = str(publisher_parsers.__file__)
DESCRIBE_CPU_S = 60
"""Seconds of the processor for what is asked when a row is read: a package with thousands of modules is imported."""
WAIT_FACTOR = 20
"""Times the processor's time that is waited for."""


class PublisherTools(BaseModel):
    """Folders and interpreters of publishers' own code."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    swe_bench_pro: Path | None = None
    """A checkout of scaleapi/SWE-bench_Pro-os: `run_scripts` has the runner and the log reader of each instance. None:
    rows of SWE-bench Pro are refused."""
    swe_rebench_v2: Path | None = None
    """A checkout of SWE-rebench/SWE-rebench-V2: its log parsers. None: rows of SWE-rebench V2 are refused."""
    python: Path | None = None
    """Interpreter that has swesmith 0.0.9 (SWE-smith) and multi-swe-bench 1.1.2 (Multi-SWE-bench); None: paddock's."""
    nemo_gym_python: Path | None = None
    """Interpreter that has nemo-gym 0.4.0 (swe-bench-ext); None: paddock's."""


class ParserSlowError(Exception):
    """Reading a log took more processor time than it may."""


def interpreter(python: Path | None) -> str:
    """Return the path of an interpreter; None: paddock's own."""
    return str(python or sys.executable)


def describe(key: str, call: str, python: Path | None, **args: Any) -> Any:
    """Ask a publisher's code about a row, once per question; RowError where the code or its answer is not there."""
    return json.loads(_described(key, call, interpreter(python), json.dumps(args)))


@lru_cache(maxsize=4096)
def _described(key: str, call: str, python: str, args: str) -> str:
    request = json.dumps({"call": call, "args": json.loads(args), "cpu_s": DESCRIBE_CPU_S})
    try:
        done = subprocess.run(
            [python, "-P", PROGRAM],
            input=request,
            capture_output=True,
            text=True,
            timeout=WAIT_FACTOR * DESCRIBE_CPU_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RowError(f"publishers.{key}: {error}", kind="publisher_missing", stage="seed") from error
    if done.returncode != 0:
        raise RowError(f"publishers.{key}: {_last(done.stderr)}", kind="publisher_missing", stage="seed")
    answer = json.loads(done.stdout)
    if "missing" in answer:
        raise RowError(f"publishers.{key}: {answer['missing']}", kind="publisher_missing", stage="seed")
    return json.dumps(answer["result"])


async def read_log(reader: LogReader, log: str, results: str, *, cpu_s: float) -> dict[str, str]:
    """Have a publisher's parser read statuses from a log; `results` is what the tests left in a file.

    Raises `ParserSlowError`, or VerifierError where the process ends by something else, or not at all.
    """
    args = {**reader.args, "log": log, **({"results": results} if reader.reads_results else {})}
    request = json.dumps({"call": reader.call, "args": args, "cpu_s": cpu_s}).encode("utf-8", "surrogatepass")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(reader.python, "-P", PROGRAM, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(WAIT_FACTOR * cpu_s):
            reply, errors = await process.communicate(request)
    except TimeoutError:
        raise VerifierError(f"no log was read in {WAIT_FACTOR * cpu_s:g} s", kind="log_reader") from None
    finally:
        if process.returncode is None:
            process.kill()
        await reap(process)
    if process.returncode == -signal.SIGXCPU:
        raise ParserSlowError
    if process.returncode != 0:
        raise VerifierError(
            f"the process that reads a log ended with {process.returncode}: {_last(errors.decode(errors='replace'))}",
            kind="log_reader",
        )
    answer = json.loads(reply)
    if "missing" in answer:
        raise VerifierError(str(answer["missing"]), kind="publisher_missing", retryable=False)
    result: dict[str, str] = answer["result"]
    return result


def _last(text: str) -> str:
    return next(reversed(["it said nothing", *text.strip().splitlines()]))
