"""Whether the ids of a rollout are of the policy's vocabulary: they decode to what was recorded beside them.

Law     of a turn that wrote a text or called a tool, that text, or the tool's name, is in the text of its sampled ids;
        white space may differ, which parsers cut. Of a turn that called tools, whose text parsers put together of what
        stood around the calls, the characters are there in their order.
Errors  ConfigError for another vocabulary's ids.
"""

from collections.abc import Iterator
from pathlib import Path

from paddock.errors import ConfigError
from paddock.tokens.vocabulary import Vocabulary
from paddock.types import JsonObject, Rollout, Turn

SHOWN_CHARS = 60


class VocabularyCheck:
    """Tries the first turn with a text of each rollout."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def require(self, file: Path, rollout: Rollout) -> None:
        for turn in rollout.turns:
            names, texts = (list(filter(None, map(_squeezed, of(turn)))) for of in (_names, _texts))
            if not turn.sampled_ids or not (names or texts):
                continue
            decoded = _squeezed(self._vocabulary.decode(turn.sampled_ids))
            missing = next((name for name in names if name not in decoded), None) or next(
                (text for text in texts if text not in decoded and not (names and _in_order(text, decoded))), None
            )
            if missing is not None:
                raise ConfigError(
                    f"{file}: ids are of another vocabulary than policy.tokenizer: what turn {turn.id} sampled "
                    f"decodes to {decoded[:SHOWN_CHARS]!r}, and {missing[:SHOWN_CHARS]!r} was recorded",
                    kind="vocabulary_differs",
                )
            return


def _names(turn: Turn) -> Iterator[str]:
    """The names of the tools that it called."""
    return (str(item.get("name") or "") for item in turn.output if item.get("type") == "function_call")


def _texts(turn: Turn) -> Iterator[str]:
    for item in turn.output:
        if item.get("type") == "message":
            content: list[JsonObject] = item.get("content") or []
            yield from (str(part.get("text") or "") for part in content if part.get("type") == "output_text")


def _in_order(text: str, decoded: str) -> bool:
    """Whether its characters are there one after the other, with others between them."""
    rest = iter(decoded)
    return all(character in rest for character in text)


def _squeezed(text: str) -> str:
    return "".join(text.split())
