"""Fields of model calls from inside, by dialect: those that pass, and those that are refused by name.

Source  OpenAI: "Create a model response", "Create chat completion". Anthropic: "Create a Message". vLLM: its extra
        parameters and content parts.
Law     a field passes because it is in a table here: the public API's, sampling parameters that engines add to it, and
        what well-known programs send about themselves. A field that would make the upstream read, fetch or run
        something, or use what it has stored, is refused with what would be right; any other is left out.
"""

from collections.abc import Mapping
from typing import NamedTuple

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
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_SHARED = (*_SAMPLING, "seed", "stop", "chat_template_kwargs")
_OPENAI = (
    *("metadata", "model", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
    *("service_tier", "store", "stream", "stream_options", "tool_choice", "tools", "top_logprobs", "user"),
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


RESPONSES = Dialect(
    allowed=frozenset(
        [
            *_SHARED,
            *_OPENAI,
            *("context_management", "include", "input", "instructions", "max_output_tokens", "max_tool_calls"),
            *("reasoning", "text", "truncation"),
            "client_metadata",  # Codex's
        ]
    ),
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
    allowed=frozenset(
        [
            *_SHARED,
            *_OPENAI,
            *("function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens"),
            *("messages", "n", "prediction", "reasoning_effort", "response_format", "verbosity"),
            *("reasoning", "thinking", "enable_thinking"),  # of gateways and open models: switches alone
        ]
    ),
    refused={**_ENGINE_FIELDS, "web_search_options": _OWN_TOOLS},
    history=("messages", "prediction"),
    default_tool="function",
)
MESSAGES = Dialect(
    allowed=frozenset(
        [
            *("temperature", "top_p", "top_k", "max_tokens", "messages", "metadata", "model", "output_config"),
            *("service_tier", "speed", "stop_sequences", "stream", "system", "thinking", "tool_choice", "tools"),
            *("cache_control", "context_management", "inference_geo", "chat_template_kwargs"),
        ]
    ),
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
