"""Claims about what a keeper says of a sandbox that may be ending."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from paddock.sandbox.keeper import keeper, messages
from paddock.sandbox.keeper.launch import Joined

ALIVE = {"op": "alive", "id": 1}


class Kept:
    """A keeper at work in a thread, over a sandbox of which there is only the descriptor that tells of its end."""

    def __init__(self) -> None:
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, self._end = os.pipe()
        self._theirs = theirs
        self._keeper = keeper._Keeper(theirs, None)  # type: ignore[arg-type] # no command is started
        self._thread = threading.Thread(target=self._run, args=[Joined(0, 0, 0, life, lambda: None)])
        self._thread.start()

    def _run(self, joined: Joined) -> None:
        with self._theirs:
            try:
                self._keeper._serve(joined)
            except (EOFError, ConnectionError):  # as `keeper.run` has it
                pass
            finally:
                os.close(joined.life)

    def ask(self, message: dict[str, Any]) -> None:
        messages.send(self.link, message)

    def heard(self) -> dict[str, Any]:
        return messages.receive(self.link)[0]

    def end(self) -> None:
        end, self._end = self._end, -1
        if end >= 0:
            os.close(end)

    def close(self) -> None:
        self.link.close()
        self._thread.join(10)
        self.end()
        assert not self._thread.is_alive()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def make(*, falling: bool, doubts_s: float = 60.0) -> Kept:
        monkeypatch.setattr(keeper, "_falling", lambda: falling)
        monkeypatch.setattr(keeper, "END_S", doubts_s)
        made.append(Kept())
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_sandbox_that_lives_is_alive(kept: Callable[..., Kept]) -> None:
    one = kept(falling=False)
    one.ask(ALIVE)
    assert one.heard() == ALIVE


def test_one_that_seems_to_end_is_not_alive_and_has_died_when_it_has(kept: Callable[..., Kept]) -> None:
    one = kept(falling=True)
    one.ask(ALIVE)
    one.link.settimeout(0.2)
    with pytest.raises(TimeoutError):
        one.heard()
    one.link.settimeout(None)
    one.end()
    assert one.heard()["op"] == "died"


def test_one_that_does_not_end_although_it_seemed_to_is_alive_however_much_else_is_asked(
    kept: Callable[..., Kept],
) -> None:
    one = kept(falling=True, doubts_s=0.5)
    one.ask(ALIVE)
    one.ask({**ALIVE, "id": 2})
    told: list[int] = []
    started = time.monotonic()
    while len(told) < 2:
        assert time.monotonic() - started < 30
        one.ask({"op": "open", "id": 3, "path": "/no/such/file", "write": False, "mode": None})
        heard = one.heard()
        if heard["op"] == "alive":
            told.append(heard["id"])
    assert told == [1, 2]
    assert time.monotonic() - started >= 0.5
