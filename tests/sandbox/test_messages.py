"""Messages between provider and keeper arrive whole, whatever their size, with their descriptors."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.sandbox.keeper import messages

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.settimeout(60)  # a message that does not come fails the test, and does not hang it
        yield ours, theirs


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_arrives(pair: Pair, message: dict[str, object]) -> None:
    messages.send(pair[0], message)
    assert messages.receive(pair[1]) == (message, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [0, messages.INLINE_BYTES - 20, messages.INLINE_BYTES, messages.INLINE_BYTES + 1, 5_000_000]
)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_message_of_any_size_brings_its_descriptors(pair: Pair, size: int, count: int) -> None:
    before = open_descriptors()
    pipes = [os.pipe() for _ in range(count)]
    message = {"op": "x", "text": "ü" * (size // 2)}
    messages.send(pair[0], message, [write for _, write in pipes])
    arrived, fds = messages.receive(pair[1])
    assert arrived == message
    assert not any(os.get_inheritable(fd) for fd in fds)
    for number, fd in enumerate(fds):
        os.write(fd, str(number).encode())
        assert os.read(pipes[number][0], 10) == str(number).encode()
    for fd in (*fds, *(end for pipe in pipes for end in pipe)):
        os.close(fd)
    assert len(fds) == count
    assert open_descriptors() == before


def test_messages_keep_their_borders_and_order_and_wait_for_a_slow_reader(pair: Pair) -> None:
    """They are more than the socket holds."""
    sent = [{"id": number, "text": "x" * (number * 5000)} for number in range(20)]

    def send_all() -> None:
        for message in sent:
            messages.send(pair[0], message)

    with ThreadPoolExecutor(1) as sender:
        sending = sender.submit(send_all)
        assert [messages.receive(pair[1])[0] for _ in sent] == sent
        sending.result()


def test_the_end_of_the_other_side_is_told(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(EOFError):
        messages.receive(pair[1])


def test_a_full_socket_says_so_and_loses_nothing(pair: Pair) -> None:
    before = open_descriptors()
    pair[0].setblocking(False)
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            messages.send(pair[0], {"id": sent, "text": "x" * 50_000})
            sent += 1
    assert [messages.receive(pair[1])[0]["id"] for _ in range(sent)] == list(range(sent))
    assert open_descriptors() == before
