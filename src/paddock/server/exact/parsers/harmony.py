"""Answers of gpt-oss: messages in channels, each with a header.

Form    `<|start|>assistant`, maybe ` to=RECIPIENT`, `<|channel|>NAME`, maybe ` to=RECIPIENT` and `<|constrain|>json`,
        `<|message|>`, the body, `<|end|>` or `<|call|>`. The prompt writes the first start; the last end may be a stop.
Means   what is sent to `functions.NAME` is a call; the channel `analysis` is reasoning, others are content. A newline
        stands between messages of one kind.
Broken  a call without tools, to anybody else, or with arguments that are no JSON object, and a header without its
        message, are content as they were sampled.
"""

import re
from collections.abc import Sequence
from typing import Literal

from paddock.server.exact.parsers.answer import message_delta
from paddock.server.exact.parsers.calls import AnswerCall
from paddock.server.exact.parsers.scanner import MarkScanner
from paddock.server.exact.parsers.values import make_call, parse_json
from paddock.types import JsonObject

START, MESSAGE = "<|start|>", "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
FUNCTIONS = "functions."
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


class HarmonyParser:
    """One answer in channels."""

    def __init__(self, *, has_tools: bool) -> None:
        self._has_tools = has_tools
        self._scanner = MarkScanner((START, MESSAGE, *ENDS))
        self._kind: Literal["header", "reasoning", "content", "call"] = "header"
        """What comes: a header, or the body of a message."""
        self._header = ""
        self._body: list[str] = []
        """Of a call."""
        self._calls: list[AnswerCall] = []
        self._texts: dict[str, list[str]] = {"reasoning": [], "content": []}
        """Pieces that are new."""
        self._given: set[str] = set()
        """Kinds of text that were given."""
        self._separator = ""

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        for piece in self._scanner.feed(text, finished=finished):
            self._take(piece)
        if finished:
            self._close("")
        reasoning, content = ("".join(self._texts[kind]) for kind in ("reasoning", "content"))
        self._texts = {"reasoning": [], "content": []}
        return message_delta(reasoning, content, self._calls if finished else ())

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        return {"content": "", **(self.feed(text, ids, finished=True) or {})}

    def _take(self, piece: str) -> None:
        if piece in ENDS:
            self._close(piece)
        elif piece == START:
            self._close("")
            self._header = piece
        elif self._kind == "header":
            self._header += piece
            if piece == MESSAGE:
                self._open()
        elif self._kind == "call":
            self._body.append(piece)
        else:
            self._give(self._kind, piece)

    def _open(self) -> None:
        """Begins the body of a message."""
        channel = _CHANNEL.search(self._header)
        if _RECIPIENT.search(self._header):
            self._kind = "call"
        else:
            self._kind = "reasoning" if channel is not None and channel[1] == "analysis" else "content"
            self._start(self._kind)

    def _close(self, mark: str) -> None:
        """Ends the message, or a header that has none."""
        if self._kind == "header" and (self._header.strip() or mark):
            self._start("content")
            self._give("content", self._header + mark)
        elif self._kind == "call":
            body = "".join(self._body)
            try:
                self._calls.append(self._call(body))
            except ValueError:
                self._start("content")
                self._give("content", f"{self._header}{body}{mark}")
        self._kind, self._header, self._body = "header", "", []

    def _call(self, body: str) -> AnswerCall:
        recipient = _RECIPIENT.search(self._header)
        if recipient is None or not recipient[1].startswith(FUNCTIONS) or not self._has_tools:
            raise ValueError("no call of a tool")
        return make_call(recipient[1].removeprefix(FUNCTIONS), parse_json(body))

    def _start(self, kind: Literal["reasoning", "content"]) -> None:
        self._separator = "\n" if kind in self._given else ""

    def _give(self, kind: Literal["reasoning", "content"], text: str) -> None:
        self._texts[kind] += [self._separator, text]
        self._separator = ""
        self._given.add(kind)
