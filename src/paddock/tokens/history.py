"""Which recorded turn a request continues, where the engine gives no ids: by what the request says was said.

Law     a turn is continued when the request tells it after the very history that its own request told, and then more:
        of several such turns the one told last. A turn that is told after another history (what came before was left
        out, changed or summed up) is context like any other, and is not continued.
Told    system and user messages, tool outputs by text, the assistant's calls by id, its other messages by text, all
        stripped: clients trim what they send back. Reasoning and the text beside calls, which they drop, don't count.
Shapes  a request in the Responses dialect (`input`) or the Chat dialect (`messages`); what is not of the expected shape
        was not said. Cost: one pass over the history, one look-up per answer in it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from paddock.types import JsonObject, Turn
from paddock.types.responses import calls, content_text, item_type, messages, output_items

DIGEST_BYTES = 12
"""Of all that was told up to a point; equal ones are taken for equal histories."""
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


class _Part(NamedTuple):
    """One thing that was told."""

    role: str
    """`call` and `assistant` are the policy's own."""
    key: str


class Answer(NamedTuple):
    """A call or message of the assistant's, as a request tells it."""

    after: str
    """Digest of what was told before it."""
    part: _Part


class Told(NamedTuple):
    """A request's history."""

    digest: str
    """Of all of it: a turn's is kept beside the turn (`TurnStore.append`)."""
    answers: list[Answer]
    """In order."""

    @classmethod
    def of(cls, request: JsonObject) -> "Told":
        """Of a request in either dialect."""
        digest = ""
        answers: list[Answer] = []
        for part in _parts(request):
            if part.role in ("call", "assistant"):
                answers.append(Answer(digest, part))
            told = f"{digest}\0{part.role}\0{part.key}".encode(errors="surrogatepass")
            digest = hashlib.blake2b(told, digest_size=DIGEST_BYTES).hexdigest()
        return cls(digest, answers)


def continued_turn(turns: Sequence[Turn], histories: Mapping[str, str], told: Told) -> str | None:
    """The id of the turn that a request continues; None: it starts a branch.

    `histories`: digest of its own request's history by turn id; a turn without one is never continued.
    """
    if not (turns and told.answers):
        return None
    by_history: dict[str, list[Turn]] = {}
    for turn in turns:
        if turn.id in histories:
            by_history.setdefault(histories[turn.id], []).append(turn)
    for answer in reversed(told.answers):
        for turn in reversed(by_history.get(answer.after, ())):
            if answer.part in _said_by(turn):
                return turn.id
    return None


def _said_by(turn: Turn) -> set[_Part]:
    called = {_Part("call", call.call_id) for call in calls(turn.output) if call.call_id}
    return called or {_Part("assistant", text.strip()) for text in messages(turn.output)}


def _parts(request: JsonObject) -> Iterator[_Part]:
    """An answer without a word is none: clients drop it."""
    if "messages" in request:
        parts = _of_messages(request["messages"])
    else:
        instructions = [_Part("system", _text(request, "instructions").strip())] if request.get("instructions") else []
        parts = chain(instructions, _of_input(request.get("input")))
    return (part for part in parts if part.key or part.role != "assistant")


def _of_input(given: Any) -> Iterator[_Part]:
    if isinstance(given, str):
        yield _Part("user", given.strip())
        return
    texts: list[_Part] = []
    """Of the assistant's items so far; dropped if a call is among them."""
    called = False
    for item in output_items(given):
        kind = item_type(item)
        role = str(item.get("role")) if kind == "message" else ""
        if kind in _CALLS:
            called = True
            texts = []
            yield _Part("call", _text(item, "call_id"))
        elif role == "assistant":
            texts += [] if called else [_Part("assistant", content_text(item.get("content")).strip())]
        elif role or kind in _OUTPUTS:
            yield from texts
            texts, called = [], False
            yield _Part(role, content_text(item.get("content")).strip()) if role else _Part("tool", _output(item))
    yield from texts


def _of_messages(given: Any) -> Iterator[_Part]:
    for message in output_items(given):
        role = message.get("role")
        text = content_text(message.get("content")).strip()
        called = output_items(message.get("tool_calls"))
        if role == "assistant" and called:
            yield from (_Part("call", _text(call, "id")) for call in called)
        else:
            yield _Part(str(role), f"{_text(message, 'tool_call_id')}\0{text}" if role == "tool" else text)


def _output(item: JsonObject) -> str:
    return f"{_text(item, 'call_id')}\0{content_text(item.get('output')).strip()}"


def _text(item: JsonObject, key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""
