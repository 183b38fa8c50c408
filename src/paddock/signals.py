"""Signals that end a program: SIGINT, SIGTERM, and SIGHUP, which a terminal sends when it closes.

Law     the first signal that a program gets asks it to end in order. What further ones do is the caller's choice: they
        end it at once, without a word, or nothing. A SIGHUP that was ignored at the start (`nohup`) stays ignored.
Closed  a terminal that has closed takes no more output: what is then still written to it goes nowhere.
Thread  signals are the main thread's; in any other nothing is changed.
"""

import asyncio
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Handler = Callable[[int, FrameType | None], object] | signal.Handlers
INTERRUPTED = 130
"""Exit code of a program that a signal ended."""
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """A handler that ends the process at once."""
    os._exit(INTERRUPTED)


def leave_at_once() -> None:
    """From here on each of them ends the process at once: nothing was begun that would have to be ended in order."""
    _set(leave)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """A process that is started within gets no SIGINT before it calls `end_by_interrupt`: an interpreter that is told
    one while it starts prints a trace."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_by_interrupt() -> None:
    """From here on a SIGINT is the end of the process, one that was held too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def interrupt() -> None:
    """From here on SIGINT raises KeyboardInterrupt, the others end the process: as an interpreter begins."""
    _set(signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def outlive_terminal() -> None:
    """From here on what is written to standard output or error goes nowhere where that is a terminal that has closed:
    the signal that says so may come later than the first write that fails."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            raw = io.BufferedWriter(_Terminal(stream.fileno(), "w", closefd=False))
            setattr(sys, name, io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True))


def ignore() -> None:
    """From here on they do nothing: the exit code stands, and what is left to do takes no time."""
    _set(signal.SIG_IGN)


def conclude() -> None:
    """From here on those do nothing that would have ended the process at once: its exit code stands. Where the process
    is a caller's, who has handlers of its own, these stay."""
    for number in _END_SIGNALS:
        if signal.getsignal(number) is leave:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def handle_first(end: Callable[[], object], *, again: Handler) -> Iterator[None]:
    """Within, in a running loop: the first signal calls `end`, further ones are handled by `again`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in _END_SIGNALS if not _is_nohup(number)}
    after = dict(before)

    def first(number: int) -> None:
        for other, handler in before.items():
            loop.remove_signal_handler(other)
            signal.signal(other, again)
            # A program that began with `leave_at_once` is ending: nothing brings its first handlers back.
            after[other] = again if handler is leave else handler
        end()

    for number in before:
        loop.add_signal_handler(number, first, number)
    try:
        yield
    finally:
        for number, handler in after.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def cancel_on_signal() -> Iterator[None]:
    """Within, the first signal cancels the current task, a second one ends the process at once."""
    task = asyncio.current_task()
    with handle_first(lambda: task and task.cancel("interrupted"), again=leave):
        yield


def _is_nohup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def _set(handler: Handler) -> None:
    """What was ignored stays so: it was started in the background, or not to end with its terminal."""
    if threading.current_thread() is threading.main_thread():
        for number in _END_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


class _Terminal(io.FileIO):
    """A terminal that takes whatever is written, also when it has closed."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(data).nbytes
