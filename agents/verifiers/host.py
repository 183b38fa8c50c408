"""`python -P host.py FOLDER`: a process that has imported an environment, and forks for each job.

Folder  `settings.json`, with `sys_path`, where this package and the environment are; `jobs`, the socket it listens on;
        what runs here leaves its files in it. Whoever started this removes the folder, and this process with all that
        it started (`paddock.processes`).
Answer  one line on stdout when it is ready: `{"has_others": ...}`, or `{"error": ...}`.
Job     one connection: a line of JSON, then the lines of `episode`. Each job has two processes: one runs the episode;
        the other waits for its end, or for that of the connection, and leaves nothing of it: so an environment that
        hangs, crashes or leaves programs behind is nobody else's trouble.
"""

import asyncio
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

GRACE_S = 5.0
"""Seconds that an episode has to end its containers, from the end of its connection."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class _Termination(Exception):  # noqa: N818 - a signal, not an error
    """This process is to end."""


def main(folder: Path) -> None:
    settings = json.loads((folder / "settings.json").read_bytes())
    sys.path[:0] = [entry for entry in settings["sys_path"] if entry not in sys.path]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "jobs"))
    listener.listen(1024)
    try:
        has_others = _import_environment(settings, folder)
    except Exception as error:  # noqa: BLE001 - whatever the environment raises is said, with its name
        _say({"error": f"{type(error).__name__}: {error}"})
        return
    _say({"has_others": has_others})
    with suppress(_Termination):
        signal.signal(signal.SIGTERM, _end)
        while True:
            connection, _ = listener.accept()
            _reap()
            if os.fork() == 0:
                listener.close()
                _watch_job(settings, connection)
            connection.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)  # nothing is left to be done, which takes the interpreter a second


def _import_environment(settings: dict[str, Any], folder: Path) -> bool:
    """Load what every job needs, once, and have what runs on this machine work below `folder`. Whether the environment
    has seats beside the model's."""
    import openai.resources  # noqa: F401 - a second for each job whose judge asks a model, else
    from verifiers.v1.runtimes import subprocess as local
    from verifiers.v1.utils.loaders import load_environment

    import paddock.agents.verifiers.episode  # noqa: F401
    from paddock.agents.verifiers.preparation import prepare
    from paddock.agents.verifiers.settings import read_settings

    if not hasattr(local, "CACHE_DIR"):
        raise RuntimeError("this release of verifiers is not known: its subprocess runtime has no CACHE_DIR")
    local.CACHE_DIR = folder
    seats = read_settings(settings)
    load_environment(seats.config)
    asyncio.run(prepare(seats.config))
    gc.freeze()
    return seats.has_others


def _say(answer: dict[str, Any]) -> None:
    """Write the answer; from then on what is printed goes to stderr, for nobody reads this any more."""
    os.write(1, json.dumps(answer).encode() + b"\n")
    os.dup2(2, 1)


def _end(*_: object) -> None:
    raise _Termination


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch_job(settings: dict[str, Any], connection: socket.socket) -> None:
    """Run the job in a child, and end with it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    running = os.fork()
    if running == 0:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _run_job(settings, connection)
    _wait(running, connection)
    while _is_parent():
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)
    os._exit(0)


def _wait(running: int, connection: socket.socket) -> None:
    """Wait for the job's end; where its connection ends before, it is told to end and waited for `GRACE_S`."""
    ended = os.pidfd_open(running)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(connection, select.POLLRDHUP | select.POLLHUP)
    if ended not in {fd for fd, _ in poll.poll()}:
        with suppress(ProcessLookupError):
            os.kill(running, signal.SIGTERM)
        poll.unregister(connection)
        poll.poll(GRACE_S * 1000)


def _is_parent() -> bool:
    """Whether any child is left, after those that have ended are gone."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _run_job(settings: dict[str, Any], connection: socket.socket) -> None:
    code = 1
    try:
        asyncio.run(_answer(settings, connection))
        code = 0
    except asyncio.CancelledError:
        code = 0
    except BaseException:  # noqa: BLE001 - the end of a process, in whatever way
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _answer(settings: dict[str, Any], connection: socket.socket) -> None:
    from pydantic_core import to_json

    from paddock.agents.verifiers.episode import run_job

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with connection.makefile("rb") as lines:
        job = json.loads(lines.readline())

    def send(message: dict[str, Any]) -> None:
        connection.sendall(to_json(message, inf_nan_mode="null") + b"\n")

    try:
        await run_job(settings, job, send)
    except Exception as error:  # noqa: BLE001 - whatever verifiers raises is said, with its name
        traceback.print_exc()
        send({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
