"""`python -c THIS PORT CPU_S OUTPUT_BYTES PROGRAM [NAME]`, in a sandbox: starts Python once for all tests of a program.

Asks    come over a connection to PORT of the loopback, whose other end is the host's: 4 bytes of a length, and stdin.
Test    a fork with descriptors, limits and a session of its own. It is the program as `__main__`, or calls the function
        NAME with the JSON values on stdin, one a line: then stdout has the function's value as JSON, what the program
        itself writes goes to stderr, and names that such programs use without an import are there. A class `Solution`
        is made without arguments, and the function is a method of it.
Answer  `ANSWER`, stdout and the end of stderr, when all that the test started is killed.
Imports as few as can be: each test's process is a copy, and a program starts with what is here.
Guard   this process can't be traced, so nothing reads or writes its memory or takes its descriptors; a fork can be once
        it holds none of them. A test may still stop or end this process: then it has no answer.
"""

import _socket
import atexit
import ctypes
import gc
import os
import resource
import select
import struct
import sys
import time

READY = b"r"
LENGTH = struct.Struct("<I")
ANSWER = struct.Struct("<iBII")
"""Exit code, or minus a signal's number; whether stdout was too long; bytes of stdout and of stderr."""
STDERR_BYTES = 2000
DRAIN_S = 0.2
"""Seconds for output of a test that has ended but left a writer behind."""
_PR_SET_DUMPABLE = 4
_SIGKILL = 9
_LIBC = ctypes.CDLL(None, use_errno=True)
_ALL = 64
"""More than the descriptors that are open here."""
MODULES = (
    *("array", "bisect", "calendar", "collections", "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum"),
    *("fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "queue", "random", "re"),
    *("statistics", "string", "textwrap", "threading", "typing"),
)
"""Imported once, not by each test, where a line of the program imports them: `json` alone costs a test as much CPU as
all else that it does."""
PRELUDE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""


def serve(port: int, cpu_s: int, output_bytes: int) -> None:
    """Returns in the fork that is to be a test; ends with the connection."""
    connection = _socket.socket()
    connection.connect(("127.0.0.1", port))
    host = connection.detach()
    set_dumpable(0)
    compile("", "", "exec")  # the first call makes what all further ones need
    gc.collect()
    gc.freeze()
    _write(host, READY)
    while length := _read(host, LENGTH.size):
        given = _read(host, *LENGTH.unpack(length))
        out, err = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            _become_test(given, out[1], err[1], cpu_s)
            return
        os.close(out[1])
        os.close(err[1])
        streams = {out[0]: bytearray(), err[0]: bytearray()}
        too_long = _collect(pid, streams, output_bytes)
        code = _end_all(pid)
        for fd in streams:
            os.close(fd)
        stdout, stderr = streams.values()
        _write(host, ANSWER.pack(code, too_long, len(stdout), len(stderr)) + stdout + stderr)
    os._exit(0)


def set_dumpable(value: int) -> None:
    if _LIBC.prctl(_PR_SET_DUMPABLE, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_DUMPABLE")


def _become_test(given: bytes, out: int, err: int, cpu_s: int) -> None:
    stdin = os.memfd_create("stdin")
    _write(stdin, given)
    os.lseek(stdin, 0, os.SEEK_SET)
    for number, fd in enumerate((stdin, out, err)):
        os.dup2(fd, number)
    os.closerange(3, _ALL)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    set_dumpable(1)


def _collect(pid: int, streams: "dict[int, bytearray]", output_bytes: int) -> bool:
    """Read a test's stdout and stderr until it has ended; whether stdout became too long."""
    out, err = streams
    ended = os.pidfd_open(pid)
    poll = select.poll()
    waiting = {ended, out, err}
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    deadline = float("inf")
    while waiting and len(streams[out]) <= output_bytes and (now := time.monotonic()) < deadline:
        for fd, _ in poll.poll(None if ended in waiting else (deadline - now) * 1000):
            chunk = b"" if fd == ended else os.read(fd, 65536)
            if chunk:
                streams[fd] += chunk
                del streams[err][:-STDERR_BYTES]
                continue
            poll.unregister(fd)
            waiting.remove(fd)
            if fd == ended:
                deadline = time.monotonic() + DRAIN_S
    os.close(ended)
    return len(streams[out]) > output_bytes


def _end_all(pid: int) -> int:
    """Kill every process but this one and the first, whose children orphans are not; how the test ended."""
    try:  # noqa: SIM105 - see above of imports
        os.kill(-1, _SIGKILL)
    except ProcessLookupError:
        pass
    status = 0
    while True:
        try:
            ended, found = os.waitpid(-1, 0)
        except ChildProcessError:
            return os.waitstatus_to_exitcode(status)
        if ended == pid:
            status = found


def _read(fd: int, n_bytes: int) -> bytes:
    """So many bytes; fewer: it was closed."""
    found = bytearray()
    while len(found) < n_bytes and (chunk := os.read(fd, n_bytes - len(found))):
        found += chunk
    return bytes(found)


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def call(name: str, names: "dict[str, object]", arguments: "list[object]") -> object:
    """What the program's function returns."""
    solution = names.get("Solution")
    owner = solution() if callable(solution) else None
    function = getattr(owner, name, None) or names[name]
    assert callable(function)
    return function(*arguments)


def end(names: "dict[str, object]") -> None:
    """End as Python does after a program that raised nothing, but without freeing each object of the server's, whose
    memory would be copied for it: that costs ten times what a small test does."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    names.clear()
    gc.collect()
    for stream in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    port, cpu_s, output_bytes, file, *function = sys.argv[1:]
    sys.path[0] = os.path.realpath(".")
    names: "dict[str, object]" = {"__name__": "solution"}
    with open(file, "rb") as opened:  # noqa: PTH123 - see above of imports
        text = opened.read()
    if function:
        import json

        exec(PRELUDE, names)  # noqa: S102 - names for the program
    lines = [line for line in map(bytes.strip, text.splitlines()) if line.startswith((b"import ", b"from "))]
    imported = b" ".join(lines).replace(b",", b" ").split()
    for module in MODULES:
        if module.encode() in imported:
            __import__(module)
    serve(int(port), int(cpu_s), int(output_bytes))
    sys.argv = [file]
    if function:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        arguments = [json.loads(line) for line in sys.stdin.read().split("\n")]
        sys.setrecursionlimit(50_000)
    else:
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__file__ = file
        names = vars(main)
    try:
        exec(compile(text, file, "exec"), names)  # noqa: S102 - the program that is judged
        if function:
            value = call(function[0], names, arguments)
            with out:
                json.dump(value, out)
    except SystemExit as exit:
        if exit.code not in (None, 0):
            raise
    end(names)
