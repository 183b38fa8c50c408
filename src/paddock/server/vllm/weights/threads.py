"""Calls that nobody has to wait for to the end."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """The result of work in a daemon's thread, so that a vLLM which never answers does not keep the trainer from
    ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)

    Thread(target=run, name="vllm-update", daemon=True).start()
    return future
