"""In which form a chat template takes what messages say: found by rendering marked conversations once.

Law     content is a string, unless the template refuses it so or loses its text, and shows it of a list of parts: each
        role by itself. Arguments of calls are an object, unless the template can only paste their string. The content
        of an answer that has calls and says nothing is empty, unless they are written only where it is null. A
        developer speaks as the system where the template writes of a developer nothing of what it writes of a system.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from paddock.types import JsonObject

_ROLES = ("system", "user", "assistant", "tool")
_CALL_ID = "abcdefghi"
"""In the form that the strictest templates want."""
_TOOLS: list[JsonObject] = [
    {
        "type": "function",
        "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
    }
]
_ARGUMENT = "Margument"


class Forms(NamedTuple):
    """How one template takes what messages say."""

    parts: frozenset[str] = frozenset()
    """Roles whose content is a list of parts."""
    argument_strings: bool = False
    """A call's arguments are a string."""
    null_content: bool = False
    """The content of an answer that has calls and says nothing is null."""
    developer: bool = False
    """Else a developer's messages are the system's."""


Render = Callable[[Sequence[JsonObject], list[JsonObject] | None, Forms], str]
"""Chat messages and tools; it may raise anything."""


def find_forms(render: Render, *, names_developer: bool) -> Forms:
    """`names_developer`: the template's source compares something with that role."""

    def text(messages: Sequence[JsonObject], forms: Forms) -> str:
        for tools in (None, _TOOLS):
            try:
                return render(messages, tools, forms)
            except Exception:  # noqa: BLE001, S112 - refused, for whatever reason
                continue
        return ""

    forms = _content_forms(text)
    forms = _call_forms(text, forms)
    return forms._replace(developer=names_developer and _renders_developer(text, forms._replace(developer=True)))


_Text = Callable[[Sequence[JsonObject], Forms], str]
"""Renders messages; the text is empty where the template refuses them."""


def _marks(role: str) -> tuple[str, str]:
    return f"M{role}first", f"M{role}second"


def _message(role: str) -> JsonObject:
    """A message of two text parts, each with its mark."""
    message: JsonObject = {"role": role, "content": [{"type": "text", "text": mark} for mark in _marks(role)]}
    return {**message, "tool_call_id": _CALL_ID} if role == "tool" else message


_SYSTEM, _USER, _ASSISTANT, _RESULT = map(_message, _ROLES)
_CONVERSATIONS = ([_USER], [_SYSTEM, _USER], [_USER, _ASSISTANT, _USER])
_CALL: JsonObject = {
    "id": _CALL_ID,
    "type": "function",
    "function": {"name": "look", "arguments": {"mark": _ARGUMENT}},
}
_CALL_CONVERSATION = [_USER, {"role": "assistant", "content": "", "tool_calls": [_CALL]}, _RESULT]


def _content_forms(text: _Text) -> Forms:
    """Find the roles whose content has to be a list of parts: as few as show all text."""
    roles = frozenset[str]()
    most = _count_marks(text, roles)
    lost = [role for role in _ROLES if not most[role]]
    for role in lost * len(lost):  # one may be shown only once another is
        if role in roles:
            continue
        more = _count_marks(text, roles | {role})
        if more[role] and more.total() > most.total():
            roles, most = roles | {role}, more
    return Forms(roles)


def _count_marks(text: _Text, parts: frozenset[str]) -> Counter[str]:
    """How many marks of each role's are written, in how many texts; a part that is written as such shows none."""
    forms = [Forms(parts, argument_strings=strings) for strings in (False, True)]
    texts = [text(messages, forms[0]) for messages in _CONVERSATIONS]
    texts.append(next((written for form in forms if (written := text(_CALL_CONVERSATION, form))), ""))
    return Counter(
        role
        for written in texts
        for role in _ROLES
        for mark in _marks(role)
        if mark in written and f"'text': '{mark}'" not in written
    )


def _call_forms(text: _Text, forms: Forms) -> Forms:
    """Find the first form of a call that the template writes."""
    for null, strings in product((False, True), (False, True)):
        candidate = forms._replace(null_content=null, argument_strings=strings)
        if _ARGUMENT in text(_CALL_CONVERSATION, candidate):
            return candidate
    return forms


def _renders_developer(text: _Text, forms: Forms) -> bool:
    renders = False
    for before in ([], [_USER, _ASSISTANT]):
        marked = {
            role: _marks("system")[0] in text([*before, {**_SYSTEM, "role": role}, _USER], forms)
            for role in ("developer", "system")
        }
        if marked["system"] and not marked["developer"]:
            return False
        renders = renders or marked["developer"]
    return renders
