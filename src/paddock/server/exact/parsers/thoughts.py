"""Reasoning between marks at the beginning of an answer.

Law     an answer is reasoning from its beginning to the end mark, unless the prompt has ended the reasoning already:
        chat templates write the start mark, or an empty thought, themselves, and models leave the start mark out. An
        answer without an end mark is nothing but reasoning: it was cut. After the reasoning a mark is text.
Prompt  the ids after the prompt's last end of a turn say whether the reasoning has ended: that of earlier turns has no
        say.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paddock.server.exact.parsers.scanner import MarkScanner
from paddock.tokens import Vocabulary

LONGEST_PROMPT_END_IDS = 64
"""What a template writes after the last turn is shorter."""


class ReasoningFormat(NamedTuple):
    """How a family of models marks reasoning."""

    start: str = "<think>"
    end: str = "</think>"
    call_marks: frozenset[str] = frozenset()
    """Beginnings of calls that end the reasoning, too, where there are tools."""


class ReasoningSplit(NamedTuple):
    """New text of an answer."""

    reasoning: str
    rest: str


class ReasoningReader:
    """Reasoning of one answer, and the rest."""

    def __init__(self, reasoning_format: ReasoningFormat, *, ended: bool, has_tools: bool) -> None:
        """`ended`: in the prompt."""
        self._format = reasoning_format
        self._call_marks = reasoning_format.call_marks if has_tools else frozenset()
        self._scanner = MarkScanner({reasoning_format.start, reasoning_format.end, *self._call_marks})
        self._has_start = False
        self._ended = ended

    def feed(self, text: str, *, finished: bool) -> ReasoningSplit:
        """Divides the text that `text` completes."""
        if self._ended:
            return ReasoningSplit("", text)
        reasoning: list[str] = []
        rest: list[str] = []
        for piece in self._scanner.feed(text, finished=finished):
            if self._ended:
                rest.append(piece)
            elif piece == self._format.start and not self._has_start:
                self._has_start = True
            elif piece == self._format.end or piece in self._call_marks:
                self._ended = True
                rest += [piece] if piece in self._call_marks else []
            else:
                reasoning.append(piece)
        if self._ended:
            rest += self._scanner.feed("", finished=True)
        return ReasoningSplit("".join(reasoning), "".join(rest))


def ended_in_prompt(reasoning_format: ReasoningFormat, vocabulary: Vocabulary, prompt_ids: Sequence[int]) -> bool:
    """Whether the end of a prompt ends the reasoning of the answer that follows."""
    tail: list[int] = []
    for token in reversed(prompt_ids[-LONGEST_PROMPT_END_IDS:]):
        if token in vocabulary.stop_ids:
            break
        tail.append(token)
    text = vocabulary.decode(tail[::-1])
    return text.rfind(reasoning_format.end) > text.rfind(reasoning_format.start)
