"""`python -I check_forks.py FD MEMORY_MIB MODULE`: forks a checking process for each socket that it is handed.

Module  a file with `warm()`, called once here, so that its imports cost each fork a millisecond and not a second, and
        `check(request) -> reply`, JSON values both, called in the forks.
Fork    has the memory limit (RLIMIT_AS). A request is `[cpu_s, value]` in one message; when its CPU seconds, user and
        system, are used up, the kernel ends the process (SIGPROF). It answers one request after the other until its
        socket closes.
Events  `{"seq", "pid"}` for each socket, in order, or `{"seq", "problem"}` where there can be no fork;
        `{"ended", "status"}` for each fork that ended, its exit code or minus the number of its signal. `{"kill"}`
        kills a fork that has not ended.
Ends    when its channel closes, with all its forks. Imports nothing of the package: it is started by path.
"""

import ctypes
import gc
import importlib.util
import json
import os
import resource
import select
import signal
import socket
import sys
from types import ModuleType
from typing import Any

MAX_MESSAGE = 1 << 17
_PR_SET_PDEATHSIG = 1
_MIB = 1 << 20


def main(fd: int, memory_mib: int, path: str) -> None:
    channel = socket.socket(fileno=fd)
    module = _load(path)
    module.warm()
    gc.freeze()
    wakeup_read, wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    running: set[int] = set()
    while True:
        ready = {readable for readable, _ in poll.poll()}
        if wakeup_read in ready:
            os.read(wakeup_read, 4096)
            _report_ends(channel, running)
        if fd in ready:
            message, fds, _, _ = socket.recv_fds(channel, 4096, 1)
            if not message:
                break
            request = json.loads(message)
            if "kill" in request:
                if request["kill"] in running:
                    os.kill(request["kill"], signal.SIGKILL)
                continue
            try:
                pid = os.fork()
            except OSError as error:
                channel.send(json.dumps({"seq": request["seq"], "problem": error.strerror}).encode())
                os.close(fds[0])
                continue
            if pid == 0:
                signal.set_wakeup_fd(-1)
                channel.close()
                os.close(wakeup_read)
                os.close(wakeup_write)
                _serve(socket.socket(fileno=fds[0]), module, memory_mib)
            running.add(pid)
            os.close(fds[0])
            channel.send(json.dumps({"seq": request["seq"], "pid": pid}).encode())
    os.killpg(0, signal.SIGKILL)


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("checks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["checks"] = module
    spec.loader.exec_module(module)
    return module


def _report_ends(channel: socket.socket, running: set[int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        running.discard(pid)
        channel.send(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}).encode())


def _serve(connection: socket.socket, module: ModuleType, memory_mib: int) -> None:
    """Answer requests; never returns."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        memory = memory_mib * _MIB
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        while message := connection.recv(MAX_MESSAGE):
            cpu_s, value = json.loads(message)
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            reply: Any = module.check(value)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send(json.dumps(reply).encode())
        os._exit(0)
    except ConnectionError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, this copy of the interpreter ends here
        os.write(2, f"check: {type(error).__name__}: {error}\n".encode()[:2000])
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
