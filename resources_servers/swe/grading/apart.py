"""Functions over what code under test wrote, run where they hold up nobody: in a process of their own if that is long.

Why     swebench's parsers can take time by the square of a text's length, in one search that lets no other thread of
        the interpreter run: 67 s over 352 kB of one line of Django's log, hours over what a sandbox may write.
Short   texts are read in a thread: the worst that is known takes 0.6 s, a process takes as long to start.
"""

import asyncio
import contextlib
import math
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from paddock.errors import VerifierError

SHORT_CHARS = 32 << 10
PROGRAM = f"from {__name__} import serve; serve()"
T = TypeVar("T")


class TooSlowError(Exception):
    """The function took longer than it may."""


async def run_apart(function: Callable[..., T], *args: object, chars: int, cpu_s: float) -> T:
    """`function(*args)`, which is pure and can be pickled with what it takes and returns.

    `chars` are those of the text that it reads, `cpu_s` the processor's time that it may take if that is long. Raises
    what the function raises, `TooSlowError`, or VerifierError where its process ended by something else.
    """
    if chars <= SHORT_CHARS:
        return await asyncio.to_thread(function, *args)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, stdin=pipe, stdout=pipe)
    try:
        made, _ = await process.communicate(pickle.dumps((cpu_s, function, args)))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode == -signal.SIGXCPU:
        raise TooSlowError
    if process.returncode != 0:
        raise VerifierError(f"the process that reads a log ended with {process.returncode}", kind="log_reader")
    error, result = pickle.loads(made)  # noqa: S301 - of our own process
    if error is not None:
        raise error
    found: T = result
    return found


def serve() -> None:
    """Run the function that stdin holds, and write what it raised, and returned, to stdout.

    The kernel ends it when its time is over, whether whoever started it still waits or not.
    """
    cpu_s, function, args = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
    used_s = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used_s + cpu_s), resource.RLIM_INFINITY))
    error, result = None, None
    try:
        result = function(*args)
    except Exception as raised:  # noqa: BLE001 - raised again where it is waited for
        error = raised
    pickle.dump((error, result), sys.stdout.buffer)
