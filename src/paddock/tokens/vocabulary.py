"""A model's vocabulary: text to ids and back, the ids that end an answer, the model's own chat template.

Source  a model folder: `tokenizer.json`; `eos_token_id` of generation_config.json and `eos_token` of
        tokenizer_config.json end an answer; `chat_template.jinja`, else `chat_template` of tokenizer_config.json.
Law     encoding adds nothing; the strings of added tokens become their ids wherever they stand, as engines do.
        `encoded_chars` counts all that was ever tokenised: records are continued, not tokenised again.
Errors  ConfigError: the package `tokenizers` is missing, a file is missing or is not what it should be, nothing ends an
        answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from paddock.errors import ConfigError
from paddock.tokens.decoder import Decoder
from paddock.types import JsonObject

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Vocabulary:
    """Of one model. Thread-safe, but for the count."""

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
        found = _json(folder / "generation_config.json").get("eos_token_id")
        stop_ids = {int(each) for each in (found if isinstance(found, list) else [found]) if each is not None}
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
            found = tokenizer.token_to_id(stop)
            if found is None:
                raise ConfigError(f"vocabulary: {stop!r} is no token", kind="tokenizer_invalid")
            stop_ids.append(found)
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

    def decoder(self) -> Decoder:
        """For one answer."""
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
        found = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        raise ConfigError(f"{file}: {error}", kind="tokenizer_invalid") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: no JSON object", kind="tokenizer_invalid")
    return found


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
    found = config.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None
