"""Chat templates of our own making: plain ones, and one for each thing that a template may do to the past.

Shapes  `TEMPLATES[name]`: the source and the marks (`paddock.testing.vocabularies`) that it is written in. `PLAIN`
        names those that keep the past as it was sampled, up to how arguments are spelled.
"""

from typing import NamedTuple

from paddock.testing.vocabularies import Marks


class ExampleTemplate(NamedTuple):
    """A template."""

    source: str
    marks: Marks
    strict: bool = False
    """It refuses what is not user, calls, results, answer, in turn."""
    one_call: bool = False
    """It refuses more calls than one at once."""


_START = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content ~ '\\n' }}{%- endif %}
{%- for tool in tools %}{{- (tool | tojson) ~ '\\n' }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' ~ messages[0].content ~ '<|im_end|>\\n' }}
{%- endif %}
"""
_LAST_USER = """\
{%- set last = namespace(user=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set last.user = loop.index0 %}{%- endif %}{%- endfor %}
"""
_THOUGHT = "{%- if m.reasoning %}{{- '<think>\\n' ~ m.reasoning ~ '\\n</think>\\n\\n' }}{%- endif %}"
_ARGUMENTS = "{{- c.function.arguments | tojson }}"
_RESULT = "{{- '<|im_start|>tool\\n' ~ m.content ~ '<|im_end|>\\n' }}"
_MERGED_RESULT = """\
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' ~ m.content ~ '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
"""
_OTHER = """\
{%- if not (loop.first and m.role == 'system') %}
{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}
{%- endif %}"""
_MESSAGES = """\
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{THOUGHT}
{{- m.content }}
{%- for c in m.tool_calls or [] %}
{{- '<tool_call>\\n{"name": ' ~ (c.function.name | tojson) ~ ', "arguments": ' }}
{ARGUMENTS}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif m.role == 'tool' %}
{RESULT}
{%- else %}
{OTHER}
{%- endif %}
{%- endfor %}
"""
_PROMPT = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"


def _chatml(
    *, start: str = "", thought: str = _THOUGHT, arguments: str = _ARGUMENTS, result: str = _RESULT, other: str = _OTHER
) -> ExampleTemplate:
    body = _MESSAGES.replace("{THOUGHT}", thought).replace("{ARGUMENTS}", arguments)
    body = body.replace("{RESULT}", result).replace("{OTHER}", other)
    return ExampleTemplate(start + _START + body + _PROMPT, "chatml")


_PLAIN_MARKS = """\
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '### assistant\\n' ~ m.content }}
{%- for c in m.tool_calls or [] %}{{- 'CALL ' ~ (c.function | tojson) ~ '\\n' }}{%- endfor %}
{{- '<|endoftext|>\\n\\n' }}
{%- else %}
{{- '### ' ~ m.role ~ '\\n' ~ m.content ~ '\\n\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '### assistant\\n' }}{%- endif %}"""

_INSTRUCT = """\
{{- bos_token }}
{%- set spoken = namespace(system='', user=true) %}
{%- if messages[0].role == 'system' %}{%- set spoken.system = messages[0].content ~ '\\n\\n' %}{%- endif %}
{%- for m in messages %}
{%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
{%- if (m.role == 'user') != spoken.user %}{{- raise_exception('user and assistant must take turns') }}{%- endif %}
{%- set spoken.user = not spoken.user %}
{%- endif %}
{%- if m.role == 'user' %}
{%- if tools and loop.index0 < 2 %}{{- '[AVAILABLE_TOOLS] ' ~ (tools | tojson) ~ '[/AVAILABLE_TOOLS]' }}{%- endif %}
{{- '[INST] ' ~ (spoken.system if loop.index0 < 2 else '') ~ m.content ~ '[/INST]' }}
{%- elif m.role == 'assistant' and m.tool_calls %}
{{- '[TOOL_CALLS] [' }}
{%- for c in m.tool_calls %}
{%- if c.id | length != 9 %}{{- raise_exception('ids of calls are nine letters or digits') }}{%- endif %}
{{- ', ' if not loop.first else '' }}
{{- {'name': c.function.name, 'arguments': c.function.arguments, 'id': c.id} | tojson }}
{%- endfor %}
{{- ']' ~ eos_token }}
{%- elif m.role == 'assistant' %}
{{- ' ' ~ m.content ~ eos_token }}
{%- elif m.role == 'tool' %}
{%- if m.tool_call_id | length != 9 %}{{- raise_exception('ids of calls are nine letters or digits') }}{%- endif %}
{{- '[TOOL_RESULTS] ' ~ ({'content': m.content, 'call_id': m.tool_call_id} | tojson) ~ '[/TOOL_RESULTS]' }}
{%- elif loop.index0 > 0 %}{{- raise_exception('the system speaks first') }}
{%- endif %}
{%- endfor %}"""

_HEADERS = """\
{%- macro header(role) %}{{- '<|start_header_id|>' ~ role ~ '<|end_header_id|>\\n\\n' }}{%- endmacro %}
{{- bos_token ~ header('system') }}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- set messages = messages[1:] %}{%- endif %}
{%- for tool in tools or [] %}{{- '\\n' ~ (tool | tojson) }}{%- endfor %}
{{- '<|eot_id|>' }}
{%- for m in messages %}
{%- if m.tool_calls %}
{%- if m.tool_calls | length > 1 %}{{- raise_exception('one call at once') }}{%- endif %}
{%- set c = m.tool_calls[0].function %}
{{- header('assistant') ~ '{"name": ' ~ (c.name | tojson) }}
{{- ', "parameters": ' ~ (c.arguments | tojson) ~ '}<|eom_id|>' }}
{%- else %}
{{- header('ipython' if m.role == 'tool' else m.role) ~ m.content ~ '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- header('assistant') }}{%- endif %}"""

TEMPLATES: dict[str, ExampleTemplate] = {
    "chatml": _chatml(),
    "plain_marks": ExampleTemplate(_PLAIN_MARKS, "plain"),
    "headers": ExampleTemplate(_HEADERS, "headers", one_call=True),
    "instruct": ExampleTemplate(_INSTRUCT, "instruct", strict=True),
    "stripped_reasoning": _chatml(
        start=_LAST_USER, thought="{%- if loop.index0 > last.user %}" + _THOUGHT + "{%- endif %}"
    ),
    "no_reasoning": _chatml(thought=""),
    "sorted_arguments": _chatml(arguments="{{- c.function.arguments | tojson(sort_keys=true) }}"),
    "compact_arguments": _chatml(arguments="{{- c.function.arguments | tojson(separators=(',', ':')) }}"),
    "trimmed": ExampleTemplate(_chatml().source.replace("m.content", "(m.content | trim)"), "chatml"),
    "merged_results": _chatml(result=_MERGED_RESULT),
    "dated": _chatml(start="{{- '<|im_start|>system\\nToday is ' ~ strftime_now('%d %B %Y') ~ '<|im_end|>\\n' }}"),
    "bos_again": _chatml(other="{%- if m.role == 'user' %}{{- bos_token }}{%- endif %}" + _OTHER),
}
"""Name to template."""
PLAIN = ("chatml", "plain_marks", "headers", "instruct", "dated", "bos_again", "merged_results")
