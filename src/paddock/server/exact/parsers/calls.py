"""Tool calls in text that comes in pieces: blocks between marks, and the content around them.

Law     a block that its format can't read whole is content, marks included; so is one without its end mark, unless the
        format knows that nothing is missing. All calls come at the end of the answer, after all content: streamed or
        whole, an answer has the same items. Blank text before, between and after calls is no content.
Calls   arguments are a JSON object; a call with others is not read. Names are not compared with the tools': whoever
        runs the tools answers a call of one that there is not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paddock.server.exact.parsers.scanner import MarkScanner
from paddock.types import JsonObject


class AnswerCall(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: str
    """A JSON object."""


class CallFormat(NamedTuple):
    """How a family of models writes calls."""

    marks: Mapping[str, str | None]
    """The end mark of each mark that begins a block; None: the block goes to the end of the answer."""
    read: Callable[[str, Sequence[JsonObject]], list[AnswerCall]]
    """The calls of a block with its marks, of these tools. ValueError where it can't be read whole."""
    at_start: bool = False
    """A block begins nowhere but at the start of the content."""


class CallReader:
    """Content and calls of one answer."""

    def __init__(self, call_format: CallFormat, tools: Sequence[JsonObject]) -> None:
        self.calls: list[AnswerCall] = []
        self._format = call_format
        self._tools = tools
        self._scanner = MarkScanner({*call_format.marks, *filter(None, call_format.marks.values())})
        self._block: list[str] = []
        """Pieces of the block that is open."""
        self._end_mark: str | None = None
        self._blanks: list[str] = []
        """Blank text since the last call; empty once other text came."""
        self._has_text = False
        """Other than blank, since the last call."""

    def feed(self, text: str, *, finished: bool) -> str:
        """The content that `text` completes."""
        content = [self._take(piece) for piece in self._scanner.feed(text, finished=finished)]
        if finished:
            content.append(self._close() if self._block else "")
            content += [] if self.calls else self._blanks
        return "".join(content)

    def _take(self, piece: str) -> str:
        if self._block:
            self._block.append(piece)
            return self._close() if piece == self._end_mark else ""
        if piece in self._format.marks and not (self._format.at_start and self._has_text):
            self._block = [piece]
            self._end_mark = self._format.marks[piece]
            return ""
        return self._text(piece)

    def _close(self) -> str:
        """Ends the block; its text where it is none."""
        block, self._block = "".join(self._block), []
        try:
            self.calls += self._format.read(block, self._tools)
        except ValueError:
            return self._text(block)
        self._blanks, self._has_text = [], False
        return ""

    def _text(self, piece: str) -> str:
        if not self._has_text and piece.isspace():
            self._blanks.append(piece)
            return ""
        blanks, self._blanks, self._has_text = self._blanks, [], True
        return "".join([*blanks, piece])
