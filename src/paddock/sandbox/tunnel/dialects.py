"""Fields of model calls from inside, by dialect: those that pass, and those that are refused by name.

Source  those of `request_fields`, and vLLM's content parts.
Law     a field passes because it is in that table. One that would make the upstream read, fetch or run something, or
        use what it has stored, is refused with what would be right; any other is left out.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paddock.types.request_fields import FIELDS

_WHOLE = "send the whole conversation in each request"
_OWN_TOOLS = "offer functions that the program runs itself"
_SERVER_SIDE = "this is set in the block of the model server, never from inside"

_ENGINE_FIELDS: Mapping[str, str] = dict.fromkeys(
    [
        "chat_template",
        "mm_processor_kwargs",
        "media_io_kwargs",
        "logits_processors",
        "vllm_xargs",
        "kv_transfer_params",
        "prompt_embeds",
        "structured_outputs",
        "structural_tag",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "guided_decoding_backend",
        "guided_whitespace_pattern",
    ],
    _SERVER_SIDE,
)


class Dialect(NamedTuple):
    """The fields of one path's requests."""

    allowed: frozenset[str]
    refused: Mapping[str, str]
    """Fields by name, each with what would be right."""
    history: tuple[str, ...]
    """Fields that hold messages, items and parts."""
    default_tool: str
    """The type of a tool that names none."""


def _allowed(dialect: str) -> frozenset[str]:
    return frozenset(name for name, field in FIELDS.items() if dialect in field.inside)


RESPONSES = Dialect(
    allowed=_allowed("r"),
    refused={
        **_ENGINE_FIELDS,
        **dict.fromkeys(["previous_response_id", "conversation"], _WHOLE),
        "prompt": "give its text as `instructions`",
        "background": "wait for the answer, or stream it",
    },
    history=("input", "instructions"),
    default_tool="function",
)
CHAT = Dialect(
    allowed=_allowed("c"),
    refused={**_ENGINE_FIELDS, "web_search_options": _OWN_TOOLS},
    history=("messages", "prediction"),
    default_tool="function",
)
MESSAGES = Dialect(
    allowed=_allowed("m"),
    refused={**_ENGINE_FIELDS, "mcp_servers": _OWN_TOOLS, "container": _OWN_TOOLS, "thread": _WHOLE},
    history=("messages", "system"),
    default_tool="custom",
)
DIALECTS: Mapping[str, Dialect] = {
    "/v1/responses": RESPONSES,
    "/v1/chat/completions": CHAT,
    "/v1/messages": MESSAGES,
}
"""By path: all of `MODEL_PATHS` that take a body."""

OWN_TOOLS = frozenset(
    [
        *("function", "custom", "local_shell", "shell", "apply_patch", "tool_search"),
        *("computer", "computer_use_preview"),
    ]
)
"""Types of tools that a program runs itself; a `shell` only where its environment is local."""
OWN_TOOL_PREFIXES = ("bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
"""Prefixes of Anthropic's tools, which end in a date; the last searches the request's own tools."""
HOSTED_TOOL_PREFIXES = (
    *("web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "image_generation", "mcp"),
    *("connector", "programmatic_tool_calling", "retrieval", "browser_search", "url_context"),
)
"""Prefixes of tools that the upstream would run."""
TEMPLATE_SWITCHES = frozenset(
    [
        *("enable_thinking", "thinking", "thinking_mode", "preserve_thinking", "clear_thinking"),
        *("truncate_history_thinking", "thinking_budget", "reasoning_effort"),
    ]
)
"""Keys of `chat_template_kwargs` that pass; their values are numbers, truth values and single words. Others are
parameters of the renderer (`chat_template`, `tokenize`, ...), or could be."""
FORMATS = frozenset(["text", "json_object", "json_schema"])
"""Forms that an answer can be asked to have; engines add some that name their own machinery."""
