"""A prompt that the server built, beside the template's own rendering of the same conversation.

Law     a first prompt is the template's text, whole. A continued one is the record and what is new: what stands behind
        an answer's last word (the stop that was sampled, then the new ids) is to be what the template writes behind it,
        in text or in ids. What was said before is compared at its own call; how the template would write sampled
        answers otherwise, and what it does to the past, is no difference of prompts (`paddock.tokens.Traits`).
Source  the answer in the record, with a mark in place of what it says last, in the conversation that the record holds:
        no dummy of the server's.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from paddock.errors import RequestError
from paddock.tokens import Prompter, Vocabulary
from paddock.types import JsonObject

_MARK = "M4f1c8d2e9b"
_OTHER: JsonObject = {"role": "user", "content": "O7a3b5c1d8e"}
"""Something else that may come behind the answer."""
_SHOWN_CHARS = 60


class ContinuedPrompt(NamedTuple):
    """A prompt that goes on from a recorded turn."""

    before: Sequence[JsonObject]
    """Messages before the turn's answer."""
    answer: JsonObject
    """The turn's, as a message."""
    follows: Sequence[JsonObject]
    last_ids: Sequence[int]
    """Token ids of the answer; their end is enough."""
    new_ids: Sequence[int]
    """What the prompt has behind it."""


class PromptComparison:
    """Compares prompts with what one template writes. `vocabulary` is not the server's, whose work is counted."""

    def __init__(self, prompter: Prompter, vocabulary: Vocabulary) -> None:
        self._prompter = prompter
        self._vocabulary = vocabulary

    def compare_first(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None,
        arguments: Mapping[str, Any],
        prompt: Sequence[int],
    ) -> str | None:
        """What differs between a first prompt and the template's text; None where nothing does."""
        written = self._prompter.text(messages, tools, arguments)
        if written == self._vocabulary.decode(prompt):
            return None
        ids = self._vocabulary.encode(written)
        return None if ids == list(prompt) else self._difference(prompt, ids)

    def compare_continued(
        self, prompt: ContinuedPrompt, tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
    ) -> str | None:
        """What differs; None where nothing does, or the template refuses the whole conversation."""
        head = [*prompt.before, _with_mark(prompt.answer)]
        written = self._tail([*head, *prompt.follows], tools, arguments)
        if written is None:
            return None
        built = [*(token for token in prompt.last_ids[-1:] if token in self._vocabulary.stop_ids), *prompt.new_ids]
        others = [self._tail([*head, *follower], tools, arguments) for follower in ([_OTHER], [])]

        def is_answers(own: str) -> bool:
            return all(other is None or other.startswith(own) for other in others)

        text, ids = self._vocabulary.decode(built), self._vocabulary.encode(written)
        if written.endswith(text) and is_answers(written.removesuffix(text)):
            return None
        own = len(ids) - len(built)
        if own >= 0 and ids[own:] == built and is_answers(self._vocabulary.decode(ids[:own])):
            return None
        begins = ids.index(built[0]) if built and built[0] in ids else 0  # the end of what the answer says goes before
        return self._difference(built, ids[begins:])

    def _tail(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
    ) -> str | None:
        """What the template writes behind the mark; None where it refuses, or leaves the mark out."""
        if not self._prompter.knows_developer:
            messages = [{**item, "role": "system"} if item["role"] == "developer" else item for item in messages]
        try:
            _, has_mark, tail = self._prompter.text(messages, tools, arguments).rpartition(_MARK)
        except RequestError:
            return None
        return tail if has_mark else None

    def _difference(self, built: Sequence[int], written: Sequence[int]) -> str:
        """How token ids of the prompt differ from the template's, in words."""
        same = _common(reversed(built), reversed(written))
        built, written = built[: len(built) - same], written[: len(written) - same]
        before = _common(built, written)
        ours, theirs = self._excerpt(built[before:]), self._excerpt(written[before:])
        return f"the prompt has {ours} where the template writes {theirs}"

    def _excerpt(self, ids: Sequence[int]) -> str:
        text = self._vocabulary.decode(ids)
        return repr(text if len(text) <= _SHOWN_CHARS else f"...{text[-_SHOWN_CHARS:]}") if text else "nothing"


def _with_mark(answer: JsonObject) -> JsonObject:
    """The answer with the mark in place of what it says last."""
    calls = answer.get("tool_calls")
    if not calls:
        return {**answer, "content": _MARK}
    *others, last = calls
    function = {**last["function"], "arguments": {"mark": _MARK}}
    return {**answer, "content": "", "tool_calls": [*others, {**last, "function": function}]}


def _common(left: Iterable[int], right: Iterable[int]) -> int:
    """How many items both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
