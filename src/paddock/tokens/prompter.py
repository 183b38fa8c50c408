"""Prompts in exact ids: a whole one, or what a chat template writes between a recorded answer and the next.

Law     what was sampled is never tokenised again: a continued prompt is the record's ids and then `after`'s, which are
        the template's own text between two answers. Where the template keeps the past as it was sampled, the text of
        both together is the template's rendering of the whole conversation. A stop that was sampled stays in the
        record: it stands for the text that ends answers. A stop that is the mark of a next message stands for that mark
        alone: before any other the template's own text comes whole, as behind an answer that was cut.
How     the new messages are rendered behind an answer of marks, in a conversation of dummies. The mark is found, then
        the end of the answer behind it: the text that follows is what the environment says. The messages' own text
        stands behind that, so nothing in it can be taken for either.
Ends    an answer of marks is rendered with several things behind it; the text that all of them share is no part of what
        follows. A stop in it ends the answer (`<|im_end|>`). Else, where a stop is the first text that differs, stops
        are marks of the next messages (`<|user|>`), and the answer ends where the texts part. Else the first special
        token ends it, though no answer is sampled to it (`<|end|>` beside a stop `<|return|>`).
Dummies what templates check is there: a user message first, roles in turn, a call for each tool result, with its id and
        name; tools, where none is refused. Of several heads the first is used that the template takes at construction;
        of several forms of the calls the first that it takes each time. Beside calls the answer says nothing where the
        template would write that behind their results.
Cost    of `after`: the new messages and the tool definitions are rendered; only the new text is tokenised.
Errors  ConfigError `template_unsupported`, at construction, for a template that can't be continued; RequestError
        `template_unsupported` where that shows only in a request; `template_refused`, `content_unsupported`.
"""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import product, takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from paddock.errors import ConfigError, RequestError
from paddock.tokens.probes import find_traits
from paddock.tokens.template import ChatTemplate, with_short_ids, with_single_system
from paddock.tokens.vocabulary import Vocabulary
from paddock.types import JsonObject


class TurnSuffix(NamedTuple):
    """The text that a template writes between an answer and the next."""

    end_text: str
    """The text that ends the answer; empty: `text` does, as it begins with the next message's mark."""
    text: str
    """All text that follows, the generation prompt included."""


class MessageEnd(NamedTuple):
    """How a template ends its answers with calls, or those without."""

    texts: tuple[str, ...]
    """The first of them ends the answer; empty: the next message's mark does."""
    own: str = ""
    """What is written of the answer behind its marks, where the next message's mark ends it."""
    marks: frozenset[str] = frozenset()
    """Stops that were found there: the one that ends answers, or those that are marks of next messages."""


def closing_stops(ends: Iterable[MessageEnd]) -> frozenset[str]:
    """Stops that end answers whatever follows."""
    return frozenset[str]().union(*(end.marks for end in ends if end.texts))


def opening_stops(ends: Iterable[MessageEnd]) -> frozenset[str]:
    """Stops that are marks of next messages alone."""
    ends = list(ends)
    return frozenset[str]().union(*(end.marks for end in ends)) - closing_stops(ends)


def find_message_end(
    tails: Sequence[str], stop_texts: Sequence[str], special_texts: Sequence[str]
) -> MessageEnd | None:
    """`tails`: what is written behind an answer's marks, before messages of different roles."""
    splitter = _splitter([*stop_texts, *special_texts])
    pieces = [splitter.findall(tail) for tail in tails]
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*pieces, strict=False))
    shared: list[str] = [column[0] for column in columns]
    stops = frozenset(stop_texts)
    closing = next((piece for piece in shared if piece in stops), None)
    if len(tails) < 2 or closing is not None:
        return MessageEnd(tuple(stop_texts), marks=frozenset([closing] if closing is not None else ()))
    opening = stops.intersection(piece_list[len(shared)] for piece_list in pieces if len(piece_list) > len(shared))
    if opening:
        return MessageEnd((), "".join(shared), opening)
    special = next((piece for piece in shared if piece in special_texts), None)
    return None if special is None else MessageEnd((*stop_texts, special))


def _splitter(whole: Sequence[str]) -> "re.Pattern[str]":
    """Finds the pieces of a text: those of `whole`, and all other characters one by one."""
    longest_first = sorted(filter(None, whole), key=len, reverse=True)
    return re.compile("|".join([*map(re.escape, longest_first), "."]), re.DOTALL)


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
    """The turn suffixes of one template."""

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
        self._answer_mark, self._argument_mark = f"s{secrets.token_hex(8)}", f"a{secrets.token_hex(8)}"
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
        self._closing = closing_stops(ends)
        self.openers = opening_stops(ends)
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
        calls: list[JsonObject] = []
        for message in messages:
            if message.get("role") != "tool":
                break
            calls.append(self._call(message, tools, names))
        refused: RequestError | None = None
        for form in (calls, calls[:1], []) if calls else ([],):
            try:
                text = self.text([*self.head, self._answer(form), *messages], tools, arguments)
                return self._cut(text, self._call_end if form else self._end)
            except RequestError as error:
                if error.kind != "template_refused":
                    raise
                refused = refused or error
        assert refused is not None
        raise refused

    def _answer(self, calls: Sequence[JsonObject]) -> JsonObject:
        if not calls:
            return {"role": "assistant", "content": self._answer_mark}
        *others, last = calls
        function = {**last["function"], "arguments": {"mark": self._argument_mark}}
        content = "" if self._silent_calls else self._answer_mark
        return {"role": "assistant", "content": content, "tool_calls": [*others, {**last, "function": function}]}

    def text(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
    ) -> str:
        """The template's rendering, with ids of calls that it takes."""
        given = with_short_ids(messages) if self.short_ids else messages
        return self._template.render(given, tools=tools, generation_prompt=True, arguments=arguments)

    def _tail(self, text: str) -> str | None:
        """The text behind the last mark; None: there is none."""
        mark = max((self._answer_mark, self._argument_mark), key=text.find)
        return text.partition(mark)[2] if mark in text else None

    def _cut(self, text: str, end: MessageEnd) -> TurnSuffix:
        """What follows the end of the answer of marks in a rendered text."""
        tail = self._tail(text)
        if tail is not None and not end.texts and tail.startswith(end.own):
            after = tail.removeprefix(end.own)
            closing = next((stop for stop in self._closing if after.startswith(stop)), "")
            return TurnSuffix(closing, after.removeprefix(closing))
        first: tuple[int, int, str] | None = None
        for end_text in end.texts if tail is not None else ():
            place = (str(tail).find(end_text), -len(end_text), end_text)
            if end_text and place[0] >= 0 and (first is None or place < first):
                first = place
        if tail is None or first is None:
            raise RequestError("chat template: nothing ends an answer", kind="template_unsupported")
        return TurnSuffix(first[2], tail[first[0] + len(first[2]) :])

    def _call(self, result: JsonObject, tools: Sequence[JsonObject] | None, names: Mapping[str, str]) -> JsonObject:
        call_id_given = str(result.get("tool_call_id") or "")
        candidates = [result.get("name"), names.get(call_id_given)]
        candidates += [
            tool["function"].get("name") for tool in (tools or [])[:1] if isinstance(tool.get("function"), dict)
        ]
        name = next((name for name in candidates if isinstance(name, str) and self._is_harmless(name)), _DUMMY_NAME)
        call_id = call_id_given if self._is_harmless(call_id_given) else _DUMMY_NAME
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": {}}}

    def _is_harmless(self, text: str) -> bool:
        """Whether a text can't be taken for the end of the answer that it stands in."""
        return bool(text) and not any(end in text for end in (*self._stop_texts, *self._call_end.texts))

    def _find_head(self, arguments: Mapping[str, Any]) -> tuple[list[JsonObject], MessageEnd]:
        mark = {"role": "user", "content": f"u{secrets.token_hex(8)}"}
        words = ""
        for tools, head in product((None, [_TOOL]), _HEADS):
            try:
                text = self.text([*head, self._answer([]), mark], tools, arguments)
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
                tail = self._tail(self.text([*messages, *follower], tools, arguments))
            except RequestError:
                continue
            tails += [] if tail is None else [tail]
            if len(tails) == 2:
                break
        return find_message_end(tails, self._stop_texts, self._special_texts) if tails else None

    def _check_tools(self, arguments: Mapping[str, Any]) -> None:
        """Find how an answer with calls ends; ConfigError where none can be continued. One without tools passes."""
        for short_ids in (False, True):
            self.short_ids = short_ids
            mark = f"r{secrets.token_hex(8)}"
            result = {"role": "tool", "tool_call_id": _LONG_ID, "content": mark}
            call = self._call(result, [_TOOL], {})
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
            try:
                whole = self.text([*self.head, answer, result], [_TOOL], arguments)
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
            suffix = self._cut(self.text([*self.head, answer, result], [_TOOL], arguments), self._call_end)
        except RequestError:
            return False
        return result["content"] in suffix.text

    def _unsupported(self, what: str) -> ConfigError:
        return ConfigError(
            f"chat template: none of the texts that end an answer ({', '.join(map(repr, self._stop_texts))}) stands "
            f"between an answer and {what} that follows it, so no record can be continued",
            kind="template_unsupported",
        )


_NONE: Mapping[str, Any] = MappingProxyType({})


class Prompter:
    """Makes the prompts of one model. `arguments`: of the template, for all requests; a request's own win."""

    def __init__(self, template: ChatTemplate, vocabulary: Vocabulary, *, arguments: Mapping[str, Any] = _NONE) -> None:
        self._template = template
        self._vocabulary = vocabulary
        self._arguments = dict(arguments)
        self._suffixes = TurnSuffixes(
            template, vocabulary.stop_texts, self._arguments, special_texts=tuple(vocabulary.mark_ids)
        )
        self._stop_texts = {token_id: text for text, token_id in vocabulary.stops.items()}
        self.traits = find_traits(
            template,
            self._suffixes.head,
            stop_texts=vocabulary.stop_texts,
            bos=vocabulary.special_texts.get("bos_token"),
            arguments=self._arguments,
            needs_tools=self._suffixes.needs_tools,
        )
        """Traits of the template with the arguments for all requests."""

    @property
    def knows_developer(self) -> bool:
        """Whether the template has the role; else a developer's messages go into the system's, at a prompt's start."""
        return self._template.forms.developer

    def whole(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None = None,
        arguments: Mapping[str, Any] = _NONE,
    ) -> list[int]:
        """The prompt of a conversation of which nothing is recorded."""
        return self._vocabulary.encode(self.text(messages, tools, arguments))

    def text(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None = None,
        arguments: Mapping[str, Any] = _NONE,
    ) -> str:
        """The template's own text of a whole conversation."""
        shown = messages if self.knows_developer else with_single_system(messages)
        return self._suffixes.text(shown, tools, {**self._arguments, **arguments})

    def after(
        self,
        last_ids: Sequence[int],
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None = None,
        arguments: Mapping[str, Any] = _NONE,
        *,
        names: Mapping[str, str] = _NONE,
    ) -> list[int]:
        """Ids to append to a turn that sampled `last_ids` (their end is enough), for the answer to new messages.

        `names`: of the tools whose results come, by id of the call; for templates that write them beside the result.
        """
        suffix = self._suffixes.after(messages, tools=tools, arguments={**self._arguments, **arguments}, names=names)
        stop_text = self._stop_texts.get(last_ids[-1]) if last_ids else None
        if not suffix.end_text:
            if stop_text is not None and suffix.text.startswith(stop_text):
                return self._behind(stop_text, suffix.text.removeprefix(stop_text))
            return self._vocabulary.encode(suffix.text)
        ids = self._behind(suffix.end_text, suffix.text)
        has_end = stop_text is not None and stop_text not in self._suffixes.openers
        return ids if has_end else [self._vocabulary.mark_ids[suffix.end_text], *ids]

    def _behind(self, mark: str, text: str) -> list[int]:
        """Ids of a text that stands behind a mark: white space may belong to it."""
        ids = self._vocabulary.encode(mark + text)
        return ids[1:] if ids[:1] == [self._vocabulary.mark_ids[mark]] else self._vocabulary.encode(text)
