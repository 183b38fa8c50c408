"""Templates that are told results of tools, with frames and without."""

from typing import Any

from paddock.errors import RequestError
from paddock.tokens import ChatTemplate, Prompter
from paddock.tokens.endings import Endings
from paddock.tokens.frames import Frame
from paddock.types import JsonObject

HEAD = """\
{%- for m in messages %}
{%- if m.role == 'tool' %}
{{- '<|im_start|>tool\\n' }}"""
TAIL = """\
{{- '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}"""


def endings(written: str, *, frames: bool, head: str = "") -> Endings:
    """Of a template that writes so of a result."""
    template = ChatTemplate(f"{head}{HEAD}{written}{TAIL}", {}, frames=frames)
    return Endings(template, ["<|im_end|>", "<|endoftext|>"], {})


def results(*contents: str) -> list[JsonObject]:
    return [
        {"role": "tool", "tool_call_id": f"{content}{place}", "content": content}
        for place, content in enumerate(contents)
    ]


def ending(one: Endings, *contents: str, tools: list[JsonObject] | None = None, **arguments: Any) -> Any:
    return written(one, results(*contents), tools=tools, arguments=arguments, names={})


def frames(one: Endings) -> list[Frame | None]:
    assert one.frames is not None
    return [kept.frame for kept in one.frames]


def written(one: Prompter | Endings, *asked: Any, **more: Any) -> Any:
    """Or the words of what refuses it."""
    try:
        return one.after(*asked, **more)
    except RequestError as error:
        return error.kind, error.message
