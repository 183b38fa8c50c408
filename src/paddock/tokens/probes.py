"""A chat template's traits, by conversations with marks in them.

Law     what the template refuses to render shows nothing, and counts as no trait.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from paddock.errors import RequestError
from paddock.tokens.template import ChatTemplate
from paddock.tokens.traits import BosPlace, Following, PromptTraits, Speaker, Spelling
from paddock.types import JsonObject

_DAYS = datetime(2001, 2, 3, 4, 5, 6), datetime(2034, 11, 12, 13, 14, 15)
_IDS = "aaaaaaaa1", "bbbbbbbb2"
"""In the form that the strictest templates want."""
_THOUGHT, _FIRST, _SECOND, _RESULT, _OTHER = "Mthought", "Mfirst", "Msecond", "Mresult", "Mother"
_TOOLS: list[JsonObject] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {"zeta": {"type": "string"}}, "required": []},
        },
    }
]
_SPELLED: dict[Spelling, str] = {
    "spaced": '{"zeta": "Mé", "alpha": [1, 2]}',
    "compact": '{"zeta":"M","alpha":[1,2]}',
    "escaped": '{"zeta": "M\\u00e9", "alpha": [1, 2]}',
}


class _Continuation(NamedTuple):
    """A conversation, and one that continues it."""

    before: list[JsonObject]
    after: list[JsonObject]
    tools: bool = False


class _TemplateProbe:
    """Renders conversations that start with `head`."""

    def __init__(
        self, template: ChatTemplate, head: Sequence[JsonObject], arguments: Mapping[str, Any], needs_tools: bool
    ) -> None:
        self.template = template
        self._needs_tools = needs_tools
        self._head = head
        self._arguments = arguments

    def text(
        self, messages: Sequence[JsonObject], *, tools: bool = False, prompt: bool = False, headed: bool = True
    ) -> str | None:
        """None: refused."""
        given = [*self._head, *messages] if headed else messages
        try:
            return self.template.render(
                given,
                tools=_TOOLS if tools or self._needs_tools else None,
                generation_prompt=prompt,
                arguments=self._arguments,
            )
        except RequestError:
            return None


def find_traits(
    template: ChatTemplate,
    head: Sequence[JsonObject],
    *,
    stop_texts: Sequence[str],
    bos: str | None,
    arguments: Mapping[str, Any],
    needs_tools: bool = False,
) -> PromptTraits:
    """`head`: messages that a conversation may start with; `bos`: the mark of a text's beginning; `needs_tools`: each
    has to have tools."""
    probe = _TemplateProbe(template, head, arguments, needs_tools)
    return PromptTraits(
        strips_reasoning=tuple(kind for kind in _FOLLOWING if _strips_reasoning(probe, kind)),
        reorders_arguments=_reorders_arguments(probe),
        reformats_arguments=tuple(kind for kind in _SPELLED if _respells(probe, kind)),
        trims_text=tuple(kind for kind in _SPOKEN if _trims(probe, kind)),
        merges_tool_results=_merges_tool_results(probe, stop_texts),
        rewrites_past=tuple(name for name, continuation in _CONTINUATIONS.items() if _rewrites(probe, continuation)),
        uses_date=_uses_date(template, head, arguments, needs_tools),
        adds_bos=_adds_bos(probe, bos),
    )


def _user(text: str = "And now?") -> JsonObject:
    return {"role": "user", "content": text}


def _answer(text: str = "Done.", *, thought: str | None = None) -> JsonObject:
    return {"role": "assistant", "content": text} | ({"reasoning": thought} if thought else {})


def _calls(*arguments: str, thought: str | None = None) -> JsonObject:
    """An answer of calls."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "look", "arguments": argument}}
        for call_id, argument in zip(_IDS, arguments, strict=False)
    ]
    return {**_answer("", thought=thought), "tool_calls": calls}


def _result(text: str = "Seen.", call: int = 0) -> JsonObject:
    return {"role": "tool", "tool_call_id": _IDS[call], "content": text}


_FOLLOWING: dict[Following, list[JsonObject]] = {
    "after_user": [_answer(thought=_THOUGHT), _user()],
    "after_tool": [_calls("{}", thought=_THOUGHT), _result()],
}
_SPOKEN: dict[Speaker, Callable[[str], list[JsonObject]]] = {
    "assistant": lambda text: [_answer(text), _user()],
    "user": lambda text: [_answer(), _user(text)],
    "tool": lambda text: [_calls("{}"), _result(text)],
    "system": lambda text: [{"role": "system", "content": text}, _user()],
}
_CONTINUATIONS = {
    "user_after_answer": _Continuation([_answer()], [_user()]),
    "user_after_reasoning": _Continuation([_answer(thought=_THOUGHT)], [_user()]),
    "tool_after_call": _Continuation([_calls("{}")], [_result()], tools=True),
    "tool_after_reasoning": _Continuation([_calls("{}", thought=_THOUGHT)], [_result()], tools=True),
    "second_result": _Continuation([_calls("{}", "{}"), _result()], [_result(call=1)], tools=True),
    "answer_after_tool": _Continuation([_calls("{}"), _result()], [_answer()], tools=True),
    "user_after_tools": _Continuation([_calls("{}"), _result(), _answer()], [_user()], tools=True),
    "user_with_tools": _Continuation([_answer()], [_user()], tools=True),
}


def _strips_reasoning(probe: _TemplateProbe, following: Following) -> bool:
    text = probe.text(_FOLLOWING[following], tools=following == "after_tool")
    return text is not None and _THOUGHT not in text


def _reorders_arguments(probe: _TemplateProbe) -> bool:
    given = json.dumps({"zeta": _FIRST, "alpha": _SECOND})
    text = probe.text([_calls(given), _result()], tools=True)
    return text is not None and -1 < text.find(_SECOND) < text.find(_FIRST)


def _respells(probe: _TemplateProbe, spelling: Spelling) -> bool:
    text = probe.text([_calls(_SPELLED[spelling]), _result()], tools=True)
    return text is not None and _SPELLED[spelling] not in text


def _trims(probe: _TemplateProbe, speaker: Speaker) -> bool:
    plain, spaced = (_SPOKEN[speaker](text) for text in (_FIRST, f" \n {_FIRST} \n "))
    headed, tools = speaker != "system", speaker == "tool"
    before, after = (probe.text(messages, tools=tools, headed=headed) for messages in (plain, spaced))
    return before is not None and before == after and _FIRST in before


def _merges_tool_results(probe: _TemplateProbe, stop_texts: Sequence[str]) -> bool:
    call, first, second = _calls("{}", "{}"), _result(_RESULT), _result(_OTHER, call=1)
    first_text = probe.text([call, first], tools=True)
    both_texts = probe.text([call, first, second], tools=True)
    if first_text is None or both_texts is None or _RESULT not in first_text or _OTHER not in both_texts:
        return False
    if not both_texts.startswith(first_text):
        return True
    both_texts = both_texts.replace(_IDS[1], _IDS[0])
    before, _, rest = both_texts.partition(_RESULT)
    starts = [before.rfind(stop) + len(stop) for stop in stop_texts if stop in before]
    opening = before[max(starts, default=0) :]
    return not rest.partition(_OTHER)[0].endswith(opening)


def _rewrites(probe: _TemplateProbe, continuation: _Continuation) -> bool:
    before = probe.text(continuation.before, tools=continuation.tools)
    after = probe.text([*continuation.before, *continuation.after], tools=continuation.tools)
    return before is not None and after is not None and not after.startswith(before)


def _uses_date(
    template: ChatTemplate, head: Sequence[JsonObject], arguments: Mapping[str, Any], needs_tools: bool
) -> bool:
    def on(day: datetime) -> _TemplateProbe:
        there = ChatTemplate(template.source, template.variables, clock=lambda: day)
        return _TemplateProbe(there, head, arguments, needs_tools)

    messages = [_answer(), _user()]
    texts = [(probe.text(messages, prompt=True), probe.text(messages, tools=True)) for probe in map(on, _DAYS)]
    return any(first_text != other for first_text, other in pairwise(texts))


def _adds_bos(probe: _TemplateProbe, bos: str | None) -> BosPlace | None:
    if not bos:
        return None
    text = probe.text([_answer(_FIRST), _user(_SECOND)], prompt=True)
    if text is None or bos not in text:
        return None
    return "every_turn" if bos in text.partition(_FIRST)[2] else "at_start"
