"""Long logs that code under test wrote are read in a process of their own, where they hold up nobody.

Why     swebench's parsers can take time by the square of a log's length, in one search that lets no other thread of
        the interpreter run: 67 s over 352 kB of one line of Django's log, hours over what a sandbox may write.
Short   logs are read in a thread: the worst that is known takes 0.6 s.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from paddock.errors import VerifierError
from paddock.processes import reap
from paddock.resources_servers.swe import swebench_logs

SHORT_CHARS = 32 << 10
WAIT_FACTOR = 20
"""Times the processor's time that is waited for: a process that is stopped, or gets no processor, is the machine's."""
PROGRAM = str(swebench_logs.__file__)
T = TypeVar("T")


class TooSlowError(Exception):
    """Reading a log took more processor time than it may."""


async def run_in_process(function: Callable[..., T], *args: object, chars: int, cpu_s: float) -> T:
    """`function(*args)`, one of `swebench_logs.CALLS`; a tuple that it returns may be a list.

    `chars` are those of the log, `cpu_s` the processor's time that it may take if that is long. Raises `TooSlowError`,
    or VerifierError where the process ended by something else, or not at all.
    """
    if chars <= SHORT_CHARS:
        return await asyncio.to_thread(function, *args)
    request = json.dumps({"call": function.__name__, "args": args, "cpu_s": cpu_s}).encode()
    pipe = asyncio.subprocess.PIPE
    # Its folder has modules with the names of others (-P).
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", PROGRAM, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(WAIT_FACTOR * cpu_s):
            reply, errors = await process.communicate(request)
    except TimeoutError:
        raise VerifierError(f"no log was read in {WAIT_FACTOR * cpu_s:g} s", kind="log_reader") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await reap(process)
    if process.returncode == -signal.SIGXCPU:
        raise TooSlowError
    if process.returncode != 0:
        *_, last = ["", *errors.decode(errors="replace").splitlines()]
        raise VerifierError(f"the process that reads a log ended with {process.returncode}: {last}", kind="log_reader")
    result: T = json.loads(reply)
    return result
