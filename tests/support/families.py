"""Chat templates of our own making with what sets published families apart: how answers end, what forms they take.

Shapes  `FAMILIES[name]`: an `ExampleTemplate`, with what such a template writes at the end of an answer.
"""

from typing import NamedTuple

from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import Marks


class Family(NamedTuple):
    """A template."""

    source: str
    marks: Marks
    ends: tuple[str, ...] = ("<|im_end|>",)
    """One of them ends an answer, whatever follows; of none: the next message's mark does."""
    openers: tuple[str, ...] = ()
    """Stops that are marks of next messages."""
    last: tuple[str, ...] = ("<|im_end|>\n",)
    """What an answer that is the last message may end with."""
    one_call: bool = False
    """It takes one call at once."""
    silent_calls: bool = False
    """It writes what is said beside calls behind their results."""
    needs_tools: bool = False
    """It refuses conversations without tools."""
    parts: tuple[str, ...] = ()
    """Roles whose content it takes as a list of parts alone."""
    argument_strings: bool = False
    """It takes the arguments of calls as a string alone."""
    null_content: bool = False
    """It writes calls only where the content beside them is null."""


_CALLS = """\
{%- for c in m.tool_calls or [] %}
{{- '\\n<tool_call>' ~ c.function.name }}
{%- for key, value in c.function.arguments.items() %}
{{- '\\n' ~ key ~ '<arg_value>' ~ (value if value is string else value | tojson) ~ '</arg_value>' }}
{%- endfor %}
{{- '\\n</tool_call>' }}
{%- endfor %}"""
_ROLES = (
    """\
{{- '<sop>' }}
{%- for tool in tools or [] %}{{- '<|system|>\\n' ~ (tool | tojson) }}{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|assistant|>\\n' }}
{%- if m.reasoning_content %}{{- '<think>' ~ m.reasoning_content ~ '</think>\\n' }}{%- endif %}
{{- m.content }}
"""
    + _CALLS
    + """
{%- elif m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|observation|>' }}{%- endif %}
{{- '\\n<tool_response>\\n' ~ m.content ~ '\\n</tool_response>' }}
{%- else %}{{- '<|' ~ m.role ~ '|>\\n' ~ m.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}"""
)
_CHANNELS = """\
{%- set called = namespace(name=none) %}
{{- '<|start|>system<|message|>Be exact.<|end|>' }}
{%- if messages[0].role in ('system', 'developer') or tools %}
{{- '<|start|>developer<|message|>' }}
{%- if messages[0].role in ('system', 'developer') %}{{- messages[0].content }}{%- endif %}
{%- for tool in tools or [] %}{{- '\\n' ~ (tool | tojson) }}{%- endfor %}
{{- '<|end|>' }}
{%- endif %}
{%- for m in messages %}
{%- if m.role == 'assistant' and m.tool_calls %}
{%- if m.content %}{{- '<|start|>assistant<|channel|>analysis<|message|>' ~ m.content ~ '<|end|>' }}{%- endif %}
{%- set called.name = m.tool_calls[0].function.name %}
{{- '<|start|>assistant to=' ~ called.name ~ '<|channel|>commentary json<|message|>' }}
{{- (m.tool_calls[0].function.arguments | tojson) ~ '<|call|>' }}
{%- elif m.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' ~ m.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- elif m.role == 'tool' %}
{%- if called.name is none %}{{- raise_exception('a result of no call') }}{%- endif %}
{{- '<|start|>' ~ called.name ~ ' to=assistant<|channel|>commentary<|message|>' ~ (m.content | tojson) ~ '<|end|>' }}
{%- elif m.role == 'user' %}{{- '<|start|>user<|message|>' ~ m.content ~ '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""
_TURNS = """\
{%- set turn = namespace(open=false, results=false) %}
{{- bos_token }}
{%- for tool in tools or [] %}{{- '<|turn>system\\n' ~ (tool | tojson) ~ '<turn|>\\n' }}{%- endfor %}
{%- for m in messages if m.role != 'tool' %}
{%- if turn.open and m.role != 'assistant' %}{{- '<turn|>\\n' }}{%- set turn.open = false %}{%- endif %}
{%- if not turn.open %}{{- '<|turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' }}{%- endif %}
{%- set turn.open = false %}
{%- for c in m.tool_calls or [] %}
{{- '<|tool_call>call:' ~ c.function.name ~ (c.function.arguments | tojson) ~ '<tool_call|>' }}
{%- endfor %}
{%- if m.tool_calls %}
{%- set at = namespace(call=false, done=false) %}
{%- for r in messages %}
{%- if at.call and not at.done and r.role == 'tool' %}
{{- '<|tool_response>response:' ~ r.content ~ '<tool_response|>' }}{%- set turn.open = true %}
{%- elif at.call %}{%- set at.done = true %}
{%- elif r is sameas m %}{%- set at.call = true %}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- m.content }}
{%- if m.content or not turn.open %}{{- '<turn|>\\n' }}{%- set turn.open = false %}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt and not turn.open %}{{- '<|turn>model\\n' }}{%- endif %}"""


_BOTH_FORMS = """\
{%- macro said(content) %}
{%- if content is string %}{{- content }}
{%- else %}{%- for part in content %}{{- part.text ~ '\\n' }}{%- endfor %}
{%- endif %}
{%- endmacro %}"""
_PARTS_OF_USERS = """\
{%- macro said(content) %}
{%- for part in content %}
{%- if part.text is not defined %}{{- raise_exception('content is a list of parts') }}{%- endif %}
{{- part.text }}
{%- endfor %}
{%- endmacro %}
{%- for tool in tools or [] %}{{- '<|im_start|>tools\\n' ~ (tool | tojson) ~ '<|im_end|>\\n' }}{%- endfor %}
{%- for m in messages %}
{{- '<|im_start|>' ~ m.role ~ '\\n' ~ (m.content if m.role in ('assistant', 'tool') else said(m.content)) }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>' ~ (c.function | tojson) ~ '</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""


def _chatml(old: str, new: str) -> str:
    source = TEMPLATES["chatml"].source
    assert old in source
    return source.replace(old, new)


_ARGUMENTS = "{{- c.function.arguments | tojson }}"
_CONTENT_AND_CALLS = """\
{{- m.content }}
{%- for c in m.tool_calls or [] %}"""
_CONTENT_OR_CALLS = """\
{{- m.content if m.content is not none }}
{%- for c in (m.tool_calls or [] if m.content is none else []) %}"""
_PASTED = "{{- '' + c.function.arguments }}"
FAMILIES: dict[str, Family] = {
    "role_marks": Family(_ROLES, "roles", (), ("<|user|>", "<|observation|>"), last=("",)),
    "channels": Family(_CHANNELS, "channels", ("<|end|>", "<|call|>"), last=("<|return|>", "<|call|>"), one_call=True),
    "one_turn": Family(_TURNS, "turns", ("<turn|>",), ("<|tool_response>",), ("<turn|>\n",), silent_calls=True),
    "pasted_arguments": Family(
        _chatml(_ARGUMENTS, "{{- '' + c.function.arguments }}"), "chatml", argument_strings=True
    ),
    "needs_tools": Family("{%- for tool in tools %}{%- endfor %}" + _chatml("", ""), "chatml", needs_tools=True),
    "null_content": Family(
        _chatml(_CONTENT_AND_CALLS, _CONTENT_OR_CALLS).replace(_ARGUMENTS, _PASTED),
        "chatml",
        argument_strings=True,
        null_content=True,
    ),
    "both_forms": Family(_BOTH_FORMS + _chatml("m.content", "said(m.content)"), "chatml"),
    "parts_of_users": Family(_PARTS_OF_USERS, "chatml", parts=("system", "user")),
    "silent_developer": Family(
        _chatml("{%- for m in messages %}", "{%- for m in messages if m.role != 'developer' %}"), "chatml"
    ),
}
"""Name to template."""
