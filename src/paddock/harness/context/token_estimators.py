"""Estimates how many tokens items of a history take, before the engine has counted them.

Source  with the policy's `tokenizer.json`: its count of each text (package `tokenizers`). Without: UTF-8 bytes, at the
        densest rate that the engine has counted in this rollout: a token per byte at most, per `BYTES_PER_TOKEN` at
        least. The first dense text of a rollout may be taken for too short, and its request be over the budget by it.
Text    what a chat template renders of an item: contents, names, arguments, outputs; content that is no text (images)
        by the bytes of its JSON, which is far too much. `MARK_TOKENS` more per item for the template's own marks.
Errors  ValueError from `load_tokenizer`: no such file, no tokenizer, or the package is missing.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from paddock.types import JsonObject

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES_PER_TOKEN = 3
"""Lowest rate that is assumed; usual vocabularies need 3.5 to 5 bytes of text or code per token."""
MARK_TOKENS = 8
"""Tokens for role, start and end of a message or a call."""
LEAST_BYTES = 128
"""Shorter texts say more about marks than about a rate; and taken too short they do little harm."""
_TEXT_KEYS = ("name", "arguments", "input", "content", "output", "summary")


class TokenEstimator(Protocol):
    """Estimates numbers of tokens for one rollout."""

    def tokens(self, items: Sequence[JsonObject]) -> int:
        """Estimate the tokens of items of a history."""
        ...

    def text_tokens(self, text: str) -> int:
        """Estimate the tokens of a text that stands in no item."""
        ...

    def calibrate(self, items: Sequence[JsonObject], tokens: int) -> None:
        """Take in the number of tokens that the engine counted for items."""
        ...


class ByteEstimator:
    """Estimates by UTF-8 bytes, at the densest rate seen."""

    def __init__(self) -> None:
        self._tokens_per_byte = 1 / BYTES_PER_TOKEN

    def tokens(self, items: Sequence[JsonObject]) -> int:
        return MARK_TOKENS * len(items) + self._of_bytes(sum(map(item_bytes, items)))

    def text_tokens(self, text: str) -> int:
        return self._of_bytes(len(text.encode(errors="surrogatepass")))

    def calibrate(self, items: Sequence[JsonObject], tokens: int) -> None:
        size = sum(map(item_bytes, items))
        if size >= LEAST_BYTES:
            rate = (tokens - MARK_TOKENS * len(items)) / size
            self._tokens_per_byte = max(self._tokens_per_byte, min(rate, 1.0))

    def _of_bytes(self, size: int) -> int:
        return int(size * self._tokens_per_byte) + 1


class TokenizerEstimator:
    """Counts with the policy's tokenizer."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer

    def tokens(self, items: Sequence[JsonObject]) -> int:
        return MARK_TOKENS * len(items) + sum(self.text_tokens(text) for item in items for text in texts(item))

    def text_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def calibrate(self, items: Sequence[JsonObject], tokens: int) -> None:
        return


@lru_cache(maxsize=4)
def load_tokenizer(file: str) -> "Tokenizer":
    """Load the tokenizer of a `tokenizer.json`. Raises ValueError."""
    if find_spec("tokenizers") is None:
        raise ValueError("tokenizer_file needs the package `tokenizers`: pip install 'paddock[tokenizers]'")
    from tokenizers import Tokenizer

    if not Path(file).is_file():
        raise ValueError(f"tokenizer_file {file}: there is no such file")
    try:
        return Tokenizer.from_file(file)
    except Exception as error:
        raise ValueError(f"tokenizer_file {file}: {error}") from error


def item_bytes(item: JsonObject) -> int:
    """Return the bytes of an item's text."""
    return sum(len(text.encode(errors="surrogatepass")) for text in texts(item))


def texts(item: JsonObject) -> Iterator[str]:
    """Yield the texts that a chat template renders of an item."""
    for key in _TEXT_KEYS:
        yield from _of_value(item.get(key))


def _of_value(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _of_part(part)
    elif value is not None:
        yield _json(value)


def _of_part(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict) and isinstance(part.get("text"), str):
        yield part["text"]
    else:
        yield _json(part)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
