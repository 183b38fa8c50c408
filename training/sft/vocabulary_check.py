"""Whether the ids of a rollout are of the policy's vocabulary: they decode to what was recorded beside them.

Law     of a turn that wrote a text or called a tool, that text, or the tool's name, is in the text of its sampled ids;
        white space may differ, which parsers cut.
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
            recorded = [text for text in map(_squeezed, _texts(turn)) if text]
            if not turn.sampled_ids or not recorded:
                continue
            decoded = _squeezed(self._vocabulary.decode(turn.sampled_ids))
            missing = next((text for text in recorded if text not in decoded), None)
            if missing is not None:
                raise ConfigError(
                    f"{file}: ids are of another vocabulary than policy.tokenizer: what turn {turn.id} sampled "
                    f"decodes to {decoded[:SHOWN_CHARS]!r}, and {missing[:SHOWN_CHARS]!r} was recorded",
                    kind="vocabulary_differs",
                )
            return


def _texts(turn: Turn) -> Iterator[str]:
    """Texts that are written in the sampled ids as they are."""
    for item in turn.output:
        if item.get("type") == "message":
            content: list[JsonObject] = item.get("content") or []
            yield from (str(part.get("text") or "") for part in content if part.get("type") == "output_text")
        elif item.get("type") == "function_call":
            yield str(item.get("name") or "")


def _squeezed(text: str) -> str:
    return "".join(text.split())
