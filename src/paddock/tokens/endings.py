"""What a chat template writes after an answer: rendered behind an answer of marks, in a conversation of dummies.

Law     the mark is found, then the first stop text after it: what follows is the environment's. The messages' own text
        stands behind that, so nothing in it can be taken for either.
Dummies what templates check is there: a user message first, roles in turn, a call for each tool result, with its id and
        name. Of several heads the first is used that the template takes at construction; of several forms of the calls
        the first that it takes each time.
Frames  where a template only pastes what messages say, what it writes is kept and filled (`frames.py`): the same text.
Errors  ConfigError `template_unsupported` for a template that can't be continued, and RequestError of that kind where
        it shows only in a request; RequestError `template_refused` from the template.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import count, takewhile
from typing import Any, NamedTuple

from paddock.errors import ConfigError, RequestError
from paddock.tokens.frames import Frame, Frames, hollowed, shape_of
from paddock.tokens.messages import with_short_ids
from paddock.tokens.opaque import Opaque, Piece
from paddock.tokens.template import ChatTemplate
from paddock.types import JsonObject

_USER: JsonObject = {"role": "user", "content": "Hello."}
_SYSTEM: JsonObject = {"role": "system", "content": "Be exact."}
_HEADS: tuple[tuple[JsonObject, ...], ...] = ((_USER,), (_SYSTEM, _USER), (), (_SYSTEM,))
_DUMMY_NAME = "tool"
_LONG_ID = "call_0123456789abcdef"
_TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": _DUMMY_NAME,
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {}, "required": []},
    },
}


class Ending(NamedTuple):
    """Of an answer and what comes after it."""

    stop_text: str
    """Ends the answer."""
    text: str
    """All that follows, the generation prompt included."""


class Endings:
    """Of one template."""

    def __init__(self, template: ChatTemplate, stop_texts: Sequence[str], arguments: Mapping[str, Any]) -> None:
        self._template = template
        self._stop_texts = tuple(stop_texts)
        self._said, self._argument = f"s{secrets.token_hex(8)}", f"a{secrets.token_hex(8)}"
        self.short_ids = False
        """The template takes only short ids of calls."""
        self.head = self._find_head(arguments)
        """Messages that a conversation may start with."""
        self._check_tools(arguments)
        self.frames = Frames() if template.frames else None

    def after(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[JsonObject] | None,
        arguments: Mapping[str, Any],
        names: Mapping[str, str],
    ) -> Ending:
        """What stands between an answer and the next. `names`: of the tools, by id of the call that results answer."""
        results = list(takewhile(lambda message: message.get("role") == "tool", messages))
        calls = [self._call(result, tools, names) for result in results]
        refused: RequestError | None = None
        for form in (calls, calls[:1], []) if calls else ([],):
            try:
                return self._framed(form, messages, tools, arguments)
            except RequestError as error:
                if error.kind != "template_refused":
                    raise
                refused = refused or error
        assert refused is not None
        raise refused

    def named(self, messages: Sequence[JsonObject]) -> list[JsonObject]:
        """Messages with ids of calls that the template takes."""
        return with_short_ids(messages) if self.short_ids else list(messages)

    def _framed(
        self,
        calls: Sequence[JsonObject],
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None,
        arguments: Mapping[str, Any],
    ) -> Ending:
        """By the frame of the shape, where it has one."""
        answer = self._answer(calls)
        if self.frames is None or self.frames.given_up:
            return self._ending([*self.head, answer, *messages], tools, arguments)
        told = self._template.given(self.named([answer, *messages]))
        shape = shape_of(told, tools, arguments)
        kept = None if shape is None else self.frames.find(shape.key)
        if shape is not None and kept is not None and kept.frame is not None:
            return Ending(kept.frame.stop_text, kept.frame.filled(shape.strings))
        ending = self._ending([*self.head, answer, *messages], tools, arguments)
        if shape is not None and kept is None:
            frame = self._frame(told, tools, arguments)
            exact = frame is not None and Ending(frame.stop_text, frame.filled(shape.strings)) == ending
            self.frames.keep(shape.key, frame if exact else None)
        return ending

    def _answer(self, calls: Sequence[JsonObject]) -> JsonObject:
        answer: JsonObject = {"role": "assistant", "content": self._said}
        if calls:
            *others, last = calls
            function = {**last["function"], "arguments": {"mark": self._argument}}
            answer["tool_calls"] = [*others, {**last, "function": function}]
        return answer

    def _ending(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
    ) -> Ending:
        """`messages`: all of them, the answer of marks too."""
        text = self._template.render(self.named(messages), tools=tools, generation_prompt=True, arguments=arguments)
        return self._cut(text)

    def _cut(self, text: str) -> Ending:
        marks = [(text.find(mark), len(mark)) for mark in (self._said, self._argument)]
        start = max((place + length for place, length in marks if place >= 0), default=-1)
        stops = [(text.find(stop, start), -len(stop), stop) for stop in self._stop_texts if stop]
        found = min((stop for stop in stops if stop[0] >= 0), default=None)
        if start < 0 or found is None:
            raise RequestError("chat template: nothing ends an answer", kind="template_unsupported")
        place, _, stop_text = found
        return Ending(stop_text, text[place + len(stop_text) :])

    def _frame(
        self, told: Sequence[JsonObject], tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
    ) -> Frame | None:
        def given(hole: Callable[[int], Opaque]) -> list[JsonObject]:
            numbers = count()
            return [*self._template.given(self.head), *hollowed(told, lambda _: hole(next(numbers)))]

        pieces = self._template.pieces(given, tools=tools, generation_prompt=True, arguments=arguments)
        return None if pieces is None else self._cut_pieces(pieces)

    def _cut_pieces(self, pieces: tuple[Piece, ...]) -> Frame | None:
        """None where a string stands so that the end of the answer could depend on it."""
        first, *rest = pieces or ("",)
        if not isinstance(first, str):
            return None
        try:
            ending = self._cut(first)
        except RequestError:
            return None
        follows = len(ending.stop_text) + len(ending.text)
        if rest and follows < max(map(len, self._stop_texts)):
            return None  # a longer stop text, or an earlier one, may end in the string
        if any(mark in piece for piece in rest if isinstance(piece, str) for mark in (self._said, self._argument)):
            return None
        return Frame(ending.stop_text, (ending.text, *rest))

    def _call(self, result: JsonObject, tools: Sequence[JsonObject] | None, names: Mapping[str, str]) -> JsonObject:
        given = str(result.get("tool_call_id") or "")
        known = [result.get("name"), names.get(given)]
        known += [tool["function"].get("name") for tool in (tools or [])[:1] if isinstance(tool.get("function"), dict)]
        name = next((name for name in known if isinstance(name, str) and self._safe(name)), _DUMMY_NAME)
        call_id = given if self._safe(given) else _DUMMY_NAME
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": {}}}

    def _safe(self, text: str) -> bool:
        """Not taken for the end of the answer that it stands in."""
        return bool(text) and not any(stop in text for stop in self._stop_texts)

    def _find_head(self, arguments: Mapping[str, Any]) -> list[JsonObject]:
        mark = {"role": "user", "content": f"u{secrets.token_hex(8)}"}
        words = ""
        for head in _HEADS:
            try:
                ending = self._ending([*head, self._answer([]), mark], None, arguments)
            except RequestError as error:
                if error.kind == "template_unsupported":
                    raise self._unsupported("a user's message") from error
                words = words or error.message
                continue
            if mark["content"] not in ending.text:
                raise self._unsupported("a user's message")
            return list(head)
        raise ConfigError(f"{words}: it refuses the plainest conversation", kind="template_unsupported")

    def _check_tools(self, arguments: Mapping[str, Any]) -> None:
        """A template that knows no tools is none to refuse."""
        for call_id, short in ((_LONG_ID, False), (_LONG_ID, True)):
            self.short_ids = short
            mark = f"r{secrets.token_hex(8)}"
            result = {"role": "tool", "tool_call_id": call_id, "content": mark}
            call = self._call(result, [_TOOL], {})
            try:
                whole = self._template.render(
                    self.named([*self.head, {"role": "assistant", "content": "", "tool_calls": [call]}, result]),
                    tools=[_TOOL],
                    generation_prompt=True,
                    arguments=arguments,
                )
            except RequestError:
                continue
            if mark in whole and not self._continues(call, result, arguments):
                raise self._unsupported("a tool's result")
            return
        self.short_ids = False

    def _continues(self, call: JsonObject, result: JsonObject, arguments: Mapping[str, Any]) -> bool:
        try:
            ending = self._ending([*self.head, self._answer([call]), result], [_TOOL], arguments)
        except RequestError:
            return False
        return result["content"] in ending.text

    def _unsupported(self, what: str) -> ConfigError:
        return ConfigError(
            f"chat template: none of the texts that end an answer ({', '.join(map(repr, self._stop_texts))}) stands "
            f"between an answer and {what} that follows it, so no record can be continued",
            kind="template_unsupported",
        )
