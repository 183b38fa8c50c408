"""Claims about the process that starts a Python program's tests: no test reaches it or the next test, and a program
ends as it does in a Python of its own."""

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError
from tests.resources_servers.code.test_server import CALLS, DOUBLES, LIMITS, judge, pytestmark, server

from paddock.resources_servers.code import CodeServer
from paddock.resources_servers.code.server import CodeConfig
from paddock.sandbox import SandboxError

__all__ = ["pytestmark", "server"]

REACHES = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
given = int(input())
own = os.fork()
if own == 0:
    time.sleep(5)
    os._exit(0)
target = TARGET
reached = []
def reach(name, act):
    try:
        if act():
            reached.append(name)
    except OSError:
        pass
def memory(mode):
    with open(f"/proc/{target}/maps") as maps:
        low = int(maps.read().split("-")[0], 16)
    with open(f"/proc/{target}/mem", mode) as file:
        file.seek(low)
        return file.read(8)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
def vectors():
    here = ctypes.create_string_buffer(8)
    local, remote = Part(ctypes.addressof(here), 8), Part(id(here), 8)
    return libc.process_vm_readv(target, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) == 8
reach("read", lambda: memory("rb"))
reach("write", lambda: memory("r+b"))
for fd in range(12):
    reach("descriptor", lambda: os.open(f"/proc/{target}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK))
    reach("link", lambda: os.readlink(f"/proc/{target}/fd/{fd}"))
reach("environ", lambda: open(f"/proc/{target}/environ").read())
reach("vectors", vectors)
reach("getfd", lambda: libc.syscall(438, os.pidfd_open(target), 3, 0) > 0)
reach("trace", lambda: libc.ptrace(16, target, None, None) == 0)
os.kill(own, signal.SIGKILL)
print(2 * given if reached else "nothing")
"""
FORGES = """
import os, struct
out = b"%d" % (2 * int(input()))
answer = struct.pack("<iBII", 0, 0, len(out), 0) + out
for fd in range(3, 1024):
    try:
        os.write(fd, b"r" + answer)
        os.write(fd, answer)
    except OSError:
        pass
"""
CONNECTS = """
import socket, struct
given = int(input())
for line in open("/proc/net/tcp").readlines()[1:]:
    for end in line.split()[1:3]:
        try:
            with socket.create_connection(("127.0.0.1", int(end.split(":")[1], 16)), 1):
                print(2 * given)
        except OSError:
            pass
print("nobody")
"""
LEAVES_DAEMON = """
import os, signal, time
given = int(input())
if given == 4:
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 65):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_IGN)
        for fd in range(3):
            os.close(fd)
        if os.fork() == 0:
            while True:
                open("/tmp/beat", "w").write(str(time.monotonic()))
                time.sleep(0.05)
        os._exit(0)
    time.sleep(0.3)
    print(8)
else:
    before = open("/tmp/beat").read()
    time.sleep(0.5)
    print(2 * given if open("/tmp/beat").read() != before else "alone")
"""
LEAKS = """
import builtins, collections, math, os, resource, signal, sys
given = int(input())
found = [
    hasattr(builtins, "MARK"), hasattr(math, "MARK"), "mark" in sys.modules, "MARK" in os.environ,
    os.getcwd() != "/tmp/program", os.umask(0o077) != 0o022, resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 99,
    bool(signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])), os.nice(1) != NICENESS + 1,
    sys.getrecursionlimit() == 77_777, signal.getsignal(signal.SIGTERM) == signal.SIG_IGN,
    bool(sys.gettrace()), "x" in sys.argv,
]
builtins.MARK = math.MARK = True
builtins.print, show = exec, print
sys.modules["mark"] = sys
os.environ["MARK"] = "x"
os.chdir("/")
resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))
sys.setrecursionlimit(77_777)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.settrace(lambda *_: None)
sys.argv.append("x")
open("main.py", "w").write("print(2 * int(input()))")
show(8 if given == 4 else 2 * given if any(found) else "nothing")
""".replace("NICENESS", str(os.nice(0)))
LIMITS_SERVER = """
import os, resource
resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))
print(2 * int(input()))
"""
ENDS = [
    f"import os, signal\nprint(2 * int(input()), flush=True)\nos.kill({whom}, signal.{name})"
    for whom in ("os.getppid()", "-1")
    for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGHUP")
]
FILLS = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
print(2 * int(input()))
"""
HONEST_ENDS = [
    "import atexit\natexit.register(lambda: print(2 * int(input())))",
    "out = open(1, 'w')\nout.write(str(2 * int(input())))",
    "import io, sys\nreal, sys.stdout = sys.stdout, io.TextIOWrapper(open(1, 'wb', 0))\nprint(2 * int(input()))",
    "class Last:\n    def __del__(self):\n        print(2 * int(input()))\nlast = Last()",
    "class Last:\n    def __del__(self):\n        print(2 * int(input()))\nlast = Last()\nlast.self = last",
    "import sys\nprint(2 * int(input()))\nsys.stdout.close()",
    "print(2 * int(input()))\nexit()",
    "import sys\ntry:\n    sys.exit(0)\nfinally:\n    print(2 * int(input()))",
    "print(2 * int(open('/dev/stdin').read()), file=open('/dev/stdout', 'w'))",
    "import os, time\nif os.fork() == 0:\n    time.sleep(0.05)\n    print(2 * int(input()))",
    """
import threading, time
threading.Thread(target=time.sleep, args=[60], daemon=True).start()
print(2 * int(input()))
""",
    """
from multiprocessing import Pool
def twice(n):
    return 2 * n
if __name__ == "__main__":
    with Pool(2) as pool:
        print(*pool.map(twice, [int(input())]))
""",
    """
import pickle, sys, __main__
class Number(int):
    pass
n = pickle.loads(pickle.dumps(Number(input())))
print(2 * n if __main__.Number is Number and sys.argv == ["main.py"] == [__file__] else 0)
""",
    "import random, secrets\nprint(2 * int(input()) * (random.random() != secrets.randbits(9)))",
]
DISHONEST_ENDS = [
    ("import atexit, os\nprint(2 * int(input()), flush=True)\natexit.register(os._exit, 3)", "runtime_error"),
    ("import sys\nprint(2 * int(input()))\nsys.exit('no')", "runtime_error"),
    ("print(2 * int(input()))\nraise KeyboardInterrupt", "runtime_error"),
    ("import os\nprint(2 * int(input()), flush=True)\nos.abort()", "runtime_error"),
    ("import os\nprint(2 * int(input()))\nos.close(1)", "runtime_error"),
    (
        "import threading, os\nprint(2 * int(input()), flush=True)\nthreading.Thread(None, os._exit, args=[2]).start()",
        "runtime_error",
    ),
]


@pytest.fixture
async def impatient() -> AsyncIterator[CodeServer]:
    server = CodeServer(CodeConfig.model_validate({"limits": {**LIMITS, "wall_s": 1.5}}), name="code", peers={})
    await server.start()
    yield server
    await server.stop()


async def test_a_test_reaches_its_own_processes_and_not_what_started_it(server: CodeServer) -> None:
    own = await judge(server, REACHES.replace("TARGET", "own"))
    assert own.reward == 1.0, own
    for target in ("os.getppid()", "1"):
        verdict = await judge(server, REACHES.replace("TARGET", target))
        assert (verdict.reason, verdict.metrics["tests_passed"]) == ("wrong_output", 0.0), (target, verdict)


@pytest.mark.parametrize("program", [FORGES, CONNECTS], ids=["descriptors", "ports"])
async def test_no_test_speaks_for_the_server(server: CodeServer, program: str) -> None:
    verdict = await judge(server, program)
    assert (verdict.reason, verdict.metrics["tests_passed"]) == ("wrong_output", 0.0), verdict


@pytest.mark.parametrize("program", [LEAVES_DAEMON, LEAKS], ids=["daemon", "state"])
async def test_nothing_of_a_test_changes_the_next(server: CodeServer, program: str) -> None:
    verdict = await judge(server, program)
    assert (verdict.reason, verdict.metrics["tests_passed"]) == ("wrong_output", 1 / 3), verdict


async def test_processes_of_a_test_take_no_room_from_the_next(server: CodeServer) -> None:
    verdict = await judge(server, FILLS)
    assert verdict.reward == 1.0, verdict


@pytest.mark.slow
async def test_a_test_that_ends_the_server_is_not_passed(server: CodeServer) -> None:
    for program in ENDS:
        verdict = await judge(server, program)
        assert (verdict.reason, verdict.metrics["tests_passed"]) == ("runtime_error", 0.0), (program, verdict)
    verdict = await judge(server, LIMITS_SERVER)
    assert (verdict.reason, verdict.metrics["tests_passed"]) == ("runtime_error", 1 / 3), verdict


@pytest.mark.parametrize("whom", ["os.getppid()", "-1"])
async def test_a_test_that_stops_the_server_is_not_passed(impatient: CodeServer, whom: str) -> None:
    verdict = await judge(impatient, f"import os\nprint(2 * int(input()), flush=True)\nos.kill({whom}, 19)")
    assert (verdict.reason, verdict.metrics["tests_passed"]) == ("time_limit", 0.0), verdict


@pytest.mark.slow
async def test_programs_end_as_in_a_python_of_their_own(server: CodeServer) -> None:
    for program in HONEST_ENDS:
        verdict = await judge(server, program)
        assert verdict.reward == 1.0, (program, verdict)
    for program, reason in DISHONEST_ENDS:
        verdict = await judge(server, program)
        assert (verdict.reward, verdict.reason) == (0.0, reason), (program, verdict)


async def test_inputs_and_outputs_of_any_size(server: CodeServer) -> None:
    many = " ".join(map(str, range(400_000)))
    doubles: dict[str, Any] = {"inputs": [many, ""], "outputs": [many[:50_000], ""]}
    assert (await judge(server, "import sys\nprint(sys.stdin.read()[:50_000])", doubles)).reward == 1.0
    calls = {**CALLS, "inputs": [f"[{many.replace(' ', ',')}]"], "outputs": ["400000"]}
    assert (await judge(server, "def order(numbers):\n    return len(numbers)", calls)).reward == 1.0


async def test_output_and_memory_without_bounds_are_named(server: CodeServer) -> None:
    assert (await judge(server, "while True:\n    print('x' * 100000)")).reason == "output_limit"
    assert (await judge(server, "x = []\nwhile True:\n    x.append(bytearray(1 << 20))")).reason == "memory_limit"
    assert (await judge(server, "while True:\n    pass", DOUBLES)).reason == "time_limit"


async def test_a_python_that_cannot_serve_is_no_verdict() -> None:
    languages = {"python": {"file": "main.py", "run": ["bash", "{file}"]}}
    server = CodeServer(CodeConfig.model_validate({"languages": languages}), name="code", peers={})
    await server.start()
    try:
        with pytest.raises(SandboxError, match="could not serve"):
            await judge(server, "print(2 * int(input()))")
    finally:
        await server.stop()
    with pytest.raises(ValidationError, match=r"python\.run"):
        CodeConfig.model_validate({"languages": {"python": {"file": "main.py", "run": ["python3", "main.py"]}}})
    with pytest.raises(ValidationError, match="hides a module"):
        CodeConfig.model_validate({"languages": {"python": {"file": "json.py", "run": ["python3", "{file}"]}}})


async def test_what_a_program_imports_is_imported_once_for_all_its_tests(server: CodeServer) -> None:
    for last_line, there in (("import heapq, json", True), ("from json import loads", True), ("text = 'json'", False)):
        # Before its own import: what is there then, the server has imported.
        first = f"import sys\nprint(2 * int(input()) if ('json' in sys.modules) == {there} else 'other')"
        assert (await judge(server, f"{first}\n{last_line}")).reward == 1.0, last_line
