"""`python -m paddock.server.child NAME`: one server in a process of its own. Started by `paddock.server.process`.

Law     ends when its parent's side of the socket closes, within `stop_timeout_s`, also while it is starting or its
        loop is stuck; where the parent was killed, its whole group goes with it.
Exit    0 told to stop; 2 the config is wrong; 1 it can't start.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress

from paddock import signals
from paddock.config import Config
from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.http import HttpPeer
from paddock.http.transport import make_client
from paddock.server.access import Access
from paddock.server.handover import GO, Handover, Status
from paddock.server.lifecycle import build_servers, serve_http, start_servers
from paddock.server.loops import loop_factory, spare_collector
from paddock.server.repeats import log_warnings
from paddock.server.sockets import Bound


class Channel:
    """The child's end of the socket, off stdin: what the server starts inherits no piece of it."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=os.dup(0))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._lines = self._socket.makefile("rb")

    def read_line(self) -> bytes:
        """The parent's next message; empty when it is gone."""
        with suppress(ConnectionError):
            return self._lines.readline()
        return b""

    def send(self, status: Status) -> None:
        with suppress(OSError):  # the parent is gone: the lifeline sees to that
            self._socket.sendall(status.line())


class Lifeline(threading.Thread):
    """Waits for the parent's messages in a thread, which works while the loop is stuck."""

    def __init__(self, channel: Channel, stop_timeout_s: float) -> None:
        super().__init__(name="lifeline", daemon=True)
        self.loop = loop_factory()()
        self.go = asyncio.Event()
        self.stop = asyncio.Event()
        self.ended = threading.Event()
        self._channel = channel
        self._stop_timeout_s = stop_timeout_s

    def run(self) -> None:
        while line := self._channel.read_line():
            if line == GO:
                self.loop.call_soon_threadsafe(self.go.set)
        with suppress(RuntimeError):  # the loop is closed: it has stopped already
            self.loop.call_soon_threadsafe(self.stop.set)
        if not self.ended.wait(self._stop_timeout_s):
            kill_group()


def kill_group() -> None:
    """This process and all that it started. It leads its group; if it does not, it ends alone."""
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> int:
    # Its parent tells it when to stop; one who signals it alone ends it, without a trace on the way.
    signals.end_by_interrupt()
    parent = os.getppid()
    channel = Channel()
    line = channel.read_line()
    if not line:
        return 1
    handover = Handover.model_validate_json(line)
    sys.path += [entry for entry in handover.path if entry not in sys.path]
    log_warnings()
    # What a server does that takes minutes.
    logging.getLogger("paddock.progress").setLevel(logging.INFO)
    lifeline = Lifeline(channel, handover.stop_timeout_s)
    lifeline.start()
    try:
        spare_collector()
        with asyncio.Runner(loop_factory=lambda: lifeline.loop) as runner:
            code = runner.run(_until_stopped(handover, channel, lifeline))
    finally:
        lifeline.ended.set()
        signals.ignore()
    if os.getppid() != parent:
        kill_group()
    return code


async def _until_stopped(handover: Handover, channel: Channel, lifeline: Lifeline) -> int:
    serving = asyncio.create_task(_serve(handover, channel, lifeline.go))
    stopping = asyncio.create_task(lifeline.stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    serving.cancel()
    stopping.cancel()
    await asyncio.gather(serving, stopping, return_exceptions=True)
    return 0 if serving.cancelled() else _report(serving, channel)


def _report(serving: "asyncio.Task[None]", channel: Channel) -> int:
    error = serving.exception()
    if not isinstance(error, PaddockError):
        traceback.print_exception(error)
        error = InfraError(f"can't start: {type(error).__name__}: {error}", kind="start_failed")
    channel.send(Status.of(error))
    return 2 if isinstance(error, ConfigError) else 1


async def _serve(handover: Handover, channel: Channel, go: asyncio.Event) -> None:
    """Prepare, wait until the parent says `go`, serve until cancelled."""
    name = handover.name
    config = Config.from_yaml(handover.config, servers=[name])
    sock = socket.socket(fileno=handover.listen_fd)
    sock.set_inheritable(False)
    client = make_client()
    peers = {peer: HttpPeer(peer, client, url, token=handover.token) for peer, url in handover.peers.items()}
    server = build_servers(config, peers, [name])[name]
    half_s = handover.stop_timeout_s / 2
    try:
        async with start_servers([server], start_timeout_s=handover.start_timeout_s, stop_timeout_s=half_s):
            channel.send(Status(event="prepared"))
            await go.wait()
            async with serve_http(
                {name: server},
                {name: Bound(sock, "")},
                access=Access(handover.token, handover.token_is_made),
                stop_timeout_s=half_s,
                limits=handover.requests,
            ):
                channel.send(Status(event="ready"))
                await asyncio.Event().wait()
    finally:
        sock.close()
        await client.aclose()


if __name__ == "__main__":
    sys.exit(main())
