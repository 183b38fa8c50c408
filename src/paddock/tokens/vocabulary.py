"""A model's vocabulary: text to ids and back, the ids that end an answer, the model's own chat template.

Source  a model folder: `tokenizer.json`; `eos_token_id` of generation_config.json and `eos_token` of
        tokenizer_config.json end an answer; `chat_template.jinja`, else `chat_template` of tokenizer_config.json.
Law     encoding adds nothing; the strings of added tokens become their ids wherever they stand, as engines do.
        `encoded_chars` counts all that was ever tokenised: records are continued, not tokenised again.
        All text that a `Decoder` gives while ids come is the `decode` of all ids but stop ids, however they were split:
        exactly so with a byte-level vocabulary; with byte fallback where the bytes are text. Text is given out as soon
        as its characters are whole: what ends in an unfinished one is held back.
Cost    of decoding: in proportion to the ids; a short window of them is decoded again with each feed.
Errors  ConfigError: the package `tokenizers` is missing, a file is missing or is not what it should be, nothing ends an
        answer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from paddock.errors import ConfigError
from paddock.types import JsonObject

if TYPE_CHECKING:
    from tokenizers import Tokenizer


UNFINISHED = "\ufffd"
"""What bytes decode to that are no character, or not yet."""
_CONTEXT_IDS = 4
"""Decoders that treat the start of a text in their own way see some ids before it. No character takes more ids."""
_MAX_PENDING_IDS = 32
"""Of more ids held back, those that can't be part of an unfinished character are let go."""


class Decoder:
    """Decodes the ids of one answer as they come."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stop_ids: frozenset[int]) -> None:
        self._decode = decode
        self._stop_ids = stop_ids
        self._context: list[int] = []
        self._context_chars = 0
        self._pending: list[int] = []
        self._sent_chars = 0
        """Characters of their text that were given out."""

    def feed(self, ids: Sequence[int]) -> str:
        """The text that `ids` complete."""
        self._pending += filterfalse(self._stop_ids.__contains__, ids)
        if not self._pending:
            return ""
        text = self._text()
        whole = text.rstrip(UNFINISHED)
        new = whole[self._sent_chars :]
        if whole == text:
            self._let_go(len(self._pending))
        else:
            self._sent_chars = max(self._sent_chars, len(whole))
            if len(self._pending) > _MAX_PENDING_IDS:
                new += self._shorten(text)
        return new

    def end(self) -> str:
        """The text that was held back."""
        new = self._text()[self._sent_chars :]
        self._let_go(len(self._pending))
        return new

    def _text(self) -> str:
        """The text of the ids that are held back."""
        return self._decode(self._context + self._pending)[self._context_chars :]

    def _let_go(self, count: int) -> None:
        self._context = (self._context + self._pending[:count])[-_CONTEXT_IDS:]
        self._context_chars = len(self._decode(self._context))
        self._pending = self._pending[count:]
        self._sent_chars = 0

    def _shorten(self, text: str) -> str:
        """Lets ids go where the text falls apart into that of two halves: no character lies across."""
        for n in range(_CONTEXT_IDS, 2 * _CONTEXT_IDS):
            before, after = self._decode(self._context + self._pending[:-n]), self._decode(self._pending[-n:])
            if before[self._context_chars :] + after == text:
                new = before[self._context_chars + self._sent_chars :]
                given_after = max(0, self._context_chars + self._sent_chars - len(before))
                self._let_go(len(self._pending) - n)
                self._sent_chars = given_after
                return new
        return ""


class Vocabulary:
    """The vocabulary of one model. Thread-safe, but for the count of characters."""

    def __init__(
        self,
        tokenizer: "Tokenizer",
        *,
        stop_ids: Iterable[int],
        special_texts: Mapping[str, str],
        chat_template: str | None,
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.stop_ids = frozenset(stop_ids)
        """An answer ends with one of these, unless it was cut."""
        if not self.stop_ids:
            raise ConfigError("vocabulary: no token ends an answer (eos_token_id, eos_token)", kind="tokenizer_invalid")
        self.special_texts = dict(special_texts)
        """Variables of chat templates: `bos_token`, `eos_token`, `pad_token`, ..."""
        self.chat_template = chat_template
        """Source of the model's own; None: it has none."""
        self.encoded_chars = 0
        """Characters tokenised so far."""
        added = tokenizer.get_added_tokens_decoder()
        self.stops = {
            added[stop].content if stop in added else tokenizer.decode([stop], skip_special_tokens=False): stop
            for stop in sorted(self.stop_ids)
        }
        """Id of each text that ends an answer."""
        special = {token.content: token_id for token_id, token in sorted(added.items()) if token.special}
        self.mark_ids = {**special, **self.stops}
        """Of special tokens and of stops, by their texts."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The vocabulary of a model folder."""
        tokenizer = _tokenizer(folder / "tokenizer.json")
        config = _json(folder / "tokenizer_config.json")
        special_texts = _special_texts(config)
        eos_ids = _json(folder / "generation_config.json").get("eos_token_id")
        stop_ids = {
            int(token_id) for token_id in (eos_ids if isinstance(eos_ids, list) else [eos_ids]) if token_id is not None
        }
        end = tokenizer.token_to_id(special_texts["eos_token"]) if "eos_token" in special_texts else None
        if end is not None:
            stop_ids.add(end)
        return cls(
            tokenizer, stop_ids=stop_ids, special_texts=special_texts, chat_template=_chat_template(folder, config)
        )

    @classmethod
    def of(
        cls,
        tokenizer: "Tokenizer",
        *,
        stops: Iterable[str],
        special_texts: Mapping[str, str] | None = None,
        chat_template: str | None = None,
    ) -> Self:
        """Of a tokenizer at hand; `stops`: tokens that end an answer."""
        stop_ids: list[int] = []
        for stop in stops:
            token_id = tokenizer.token_to_id(stop)
            if token_id is None:
                raise ConfigError(f"vocabulary: {stop!r} is no token", kind="tokenizer_invalid")
            stop_ids.append(token_id)
        return cls(tokenizer, stop_ids=stop_ids, special_texts=special_texts or {}, chat_template=chat_template)

    @property
    def stop_texts(self) -> tuple[str, ...]:
        return tuple(self.stops)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """Lone surrogates, which no id stands for, become U+FFFD."""
        self.encoded_chars += len(text)
        try:
            return self._tokenizer.encode(text, add_special_tokens=False).ids
        except (UnicodeEncodeError, TypeError):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Special tokens included. An id that is none of the vocabulary's (engines pad it) has no text."""
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def decode_answer(self, ids: Sequence[int]) -> str:
        """The text of an answer that is complete, without the stop."""
        return self._tokenizer.decode(list(filterfalse(self.stop_ids.__contains__, ids)), skip_special_tokens=False)

    def decoder(self) -> Decoder:
        """For an answer that comes in parts."""
        return Decoder(self.decode, self.stop_ids)


def _tokenizer(file: Path) -> "Tokenizer":
    if find_spec("tokenizers") is None:
        raise ConfigError("exact ids need the package `tokenizers`: pip install 'paddock[tokenizers]'")
    from tokenizers import Tokenizer

    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file", kind="tokenizer_missing")
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:
        raise ConfigError(f"{file}: {error}", kind="tokenizer_invalid") from error


def _json(file: Path) -> JsonObject:
    """Empty for no file."""
    try:
        value = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        raise ConfigError(f"{file}: {error}", kind="tokenizer_invalid") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: no JSON object", kind="tokenizer_invalid")
    return value


def _special_texts(config: JsonObject) -> dict[str, str]:
    extra = config.get("extra_special_tokens")
    given = {**config, **extra} if isinstance(extra, dict) else config
    texts = {name: _token_text(value) for name, value in given.items() if name.endswith("_token")}
    return {name: text for name, text in texts.items() if text is not None}


def _token_text(value: Any) -> str | None:
    """A token is written as its text, or as an object that holds it."""
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _chat_template(folder: Path, config: JsonObject) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
