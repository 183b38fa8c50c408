"""What a chat template writes after an answer: rendered behind an answer of marks, in a conversation of dummies.

Law     the mark is found, then the end of the answer behind it (`message_end.py`): what follows is the environment's.
        The messages' own text stands behind that, so nothing in it can be taken for either.
Dummies what templates check is there: a user message first, roles in turn, a call for each tool result, with its id and
        name; tools, where none is refused. Of several heads the first is used that the template takes at construction;
        of several forms of the calls the first that it takes each time. Beside calls the answer says nothing where the
        template would write that behind their results.
Errors  ConfigError `template_unsupported` for a template that can't be continued, and RequestError of that kind where
        it shows only in a request; RequestError `template_refused` from the template.
"""

import secrets
from collections.abc import Mapping, Sequence
from itertools import product, takewhile
from typing import Any

from paddock.errors import ConfigError, RequestError
from paddock.tokens.message_end import MessageEnd, TurnSuffix, closing, find_message_end, opening
from paddock.tokens.messages import with_short_ids
from paddock.tokens.template import ChatTemplate
from paddock.types import JsonObject

_USER: JsonObject = {"role": "user", "content": "Hello."}
_SYSTEM: JsonObject = {"role": "system", "content": "Be exact."}
_HEADS: tuple[tuple[JsonObject, ...], ...] = ((_USER,), (_SYSTEM, _USER), (), (_SYSTEM,))
_FOLLOWERS: tuple[tuple[JsonObject, ...], ...] = ((_SYSTEM,), (), ({"role": "assistant", "content": "Well."},))
"""What may come behind an answer beside a user; behind one with calls beside a result."""
_CALL_FOLLOWERS: tuple[tuple[JsonObject, ...], ...] = ((_USER,), ())
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


class TurnSuffixes:
    """Of one template."""

    def __init__(
        self,
        template: ChatTemplate,
        stop_texts: Sequence[str],
        arguments: Mapping[str, Any],
        *,
        special_texts: Sequence[str] = (),
    ) -> None:
        """`special_texts`: of tokens that no text is tokenised to unless it holds theirs."""
        self._template = template
        self._stop_texts = tuple(stop_texts)
        self._special_texts = tuple(special_texts)
        self._said, self._argument = f"s{secrets.token_hex(8)}", f"a{secrets.token_hex(8)}"
        self.short_ids = False
        """The template takes only short ids of calls."""
        self._silent_calls = False
        self._closing: frozenset[str] = frozenset()
        self.needs_tools = False
        """The template refuses conversations without tools."""
        self.head, self._end = self._find_head(arguments)
        """Messages that a conversation may start with; how an answer ends."""
        self._call_end = self._end
        """How one with calls ends."""
        self._check_tools(arguments)
        ends = (self._end, self._call_end)
        self._closing = closing(ends)
        self.openers = opening(ends)
        """Stops that are marks of next messages, and stand for no end of an answer."""

    def after(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[JsonObject] | None,
        arguments: Mapping[str, Any],
        names: Mapping[str, str],
    ) -> TurnSuffix:
        """What stands between an answer and the next. `names`: of the tools, by id of the call that results answer."""
        results = list(takewhile(lambda message: message.get("role") == "tool", messages))
        calls = [self._call(result, tools, names) for result in results]
        refused: RequestError | None = None
        for form in (calls, calls[:1], []) if calls else ([],):
            try:
                return self._ending(self._answer(form), messages, tools, arguments)
            except RequestError as error:
                if error.kind != "template_refused":
                    raise
                refused = refused or error
        assert refused is not None
        raise refused

    def named(self, messages: Sequence[JsonObject]) -> list[JsonObject]:
        """Messages with ids of calls that the template takes."""
        return with_short_ids(messages) if self.short_ids else list(messages)

    def _answer(self, calls: Sequence[JsonObject]) -> JsonObject:
        if not calls:
            return {"role": "assistant", "content": self._said}
        *others, last = calls
        function = {**last["function"], "arguments": {"mark": self._argument}}
        content = "" if self._silent_calls else self._said
        return {"role": "assistant", "content": content, "tool_calls": [*others, {**last, "function": function}]}

    def _end_of(self, answer: JsonObject) -> MessageEnd:
        return self._call_end if "tool_calls" in answer else self._end

    def _ending(
        self,
        answer: JsonObject,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None,
        arguments: Mapping[str, Any],
    ) -> TurnSuffix:
        """`answer`: of marks."""
        text = self._text([*self.head, answer, *messages], tools, arguments)
        return self._cut(text, self._end_of(answer))

    def _text(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
    ) -> str:
        return self._template.render(self.named(messages), tools=tools, generation_prompt=True, arguments=arguments)

    def _tail(self, text: str) -> str | None:
        """What is written behind the last mark; None: there is none."""
        places = [(text.find(mark), len(mark)) for mark in (self._said, self._argument)]
        start = max((place + length for place, length in places if place >= 0), default=None)
        return None if start is None else text[start:]

    def _cut(self, text: str, end: MessageEnd) -> TurnSuffix:
        tail = self._tail(text)
        ending = None if tail is None else end.ending(tail)
        if ending is None:
            raise RequestError("chat template: nothing ends an answer", kind="template_unsupported")
        if ending.end_text:
            return ending
        closed = next((stop for stop in self._closing if ending.text.startswith(stop)), "")
        return TurnSuffix(closed, ending.text.removeprefix(closed))

    def _call(self, result: JsonObject, tools: Sequence[JsonObject] | None, names: Mapping[str, str]) -> JsonObject:
        given = str(result.get("tool_call_id") or "")
        known = [result.get("name"), names.get(given)]
        known += [tool["function"].get("name") for tool in (tools or [])[:1] if isinstance(tool.get("function"), dict)]
        name = next((name for name in known if isinstance(name, str) and self._safe(name)), _DUMMY_NAME)
        call_id = given if self._safe(given) else _DUMMY_NAME
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": {}}}

    def _safe(self, text: str) -> bool:
        """Not taken for the end of the answer that it stands in."""
        return bool(text) and not any(end in text for end in (*self._stop_texts, *self._call_end.texts))

    def _find_head(self, arguments: Mapping[str, Any]) -> tuple[list[JsonObject], MessageEnd]:
        mark = {"role": "user", "content": f"u{secrets.token_hex(8)}"}
        words = ""
        for tools, head in product((None, [_TOOL]), _HEADS):
            try:
                text = self._text([*head, self._answer([]), mark], tools, arguments)
            except RequestError as error:
                words = words or error.message
                continue
            self.needs_tools = tools is not None
            end = self._find_end([*head, self._answer([])], [[mark], *_FOLLOWERS], tools, arguments)
            if end is None or mark["content"] not in self._cut(text, end).text:
                raise self._unsupported("a user's message")
            return list(head), end
        raise ConfigError(f"{words}: it refuses the plainest conversation", kind="template_unsupported")

    def _find_end(
        self,
        messages: Sequence[JsonObject],
        followers: Sequence[Sequence[JsonObject]],
        tools: Sequence[JsonObject] | None,
        arguments: Mapping[str, Any],
    ) -> MessageEnd | None:
        """Of an answer of marks, the last of `messages`. Of the followers the first two that the template takes."""
        tails: list[str] = []
        for follower in followers:
            try:
                tail = self._tail(self._text([*messages, *follower], tools, arguments))
            except RequestError:
                continue
            tails += [] if tail is None else [tail]
            if len(tails) == 2:
                break
        return find_message_end(tails, self._stop_texts, self._special_texts) if tails else None

    def _check_tools(self, arguments: Mapping[str, Any]) -> None:
        """A template that knows no tools is none to refuse."""
        for short_ids in (False, True):
            self.short_ids = short_ids
            mark = f"r{secrets.token_hex(8)}"
            result = {"role": "tool", "tool_call_id": _LONG_ID, "content": mark}
            call = self._call(result, [_TOOL], {})
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
            try:
                whole = self._text([*self.head, answer, result], [_TOOL], arguments)
            except RequestError:
                continue
            if mark in whole and not any(
                self._continues(call, result, arguments, silent=silent) for silent in (False, True)
            ):
                raise self._unsupported("a tool's result")
            return
        self.short_ids = False

    def _continues(self, call: JsonObject, result: JsonObject, arguments: Mapping[str, Any], *, silent: bool) -> bool:
        self._silent_calls = silent
        answer = self._answer([call])
        end = self._find_end([*self.head, answer], [[result], *_CALL_FOLLOWERS], [_TOOL], arguments)
        self._call_end = end or self._end
        try:
            ending = self._ending(answer, [result], [_TOOL], arguments)
        except RequestError:
            return False
        return result["content"] in ending.text

    def _unsupported(self, what: str) -> ConfigError:
        return ConfigError(
            f"chat template: none of the texts that end an answer ({', '.join(map(repr, self._stop_texts))}) stands "
            f"between an answer and {what} that follows it, so no record can be continued",
            kind="template_unsupported",
        )
