"""Functions that tests name as tools."""

import asyncio
import threading
from typing import Annotated

from pydantic import Field

from paddock.server import ToolMistake

RELEASED = threading.Event()


def add(left: int, right: Annotated[int, Field(description="Added to it.")] = 1) -> int:
    """Add two numbers."""
    return left + right


async def repeat(text: str, times: int) -> str:
    await asyncio.sleep(0)
    return text * times


def halve(number: int) -> int:
    if number % 2:
        raise ToolMistake(f"{number} is odd")
    return number // 2


def fail() -> None:
    raise TimeoutError("of its own")


def hang() -> None:
    """Block its thread."""
    RELEASED.wait()


async def wait() -> None:
    """Never answer."""
    await asyncio.Event().wait()


def move(item: str) -> str:
    """Have the name of a tool of the environment."""
    return f"not {item}"


def untyped(x) -> int:  # type: ignore[no-untyped-def]
    return 0
