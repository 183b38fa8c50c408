"""Fields of model requests: the dialects that have each, who may send it, and which engines are given it.

Source  OpenAI: "Create a model response", "Create chat completion". Anthropic: "Create a Message". vLLM: its extra
        parameters. Besides, what well-known programs and gateways add.
Law     a model server reads no field that has no entry here, and a tunnel passes none on.
Shapes  dialects by their first letters: `r`esponses, `c`hat, `m`essages.
"""

from typing import Literal, NamedTuple


class RequestField(NamedTuple):
    """What all readers of requests know of a field."""

    read: str
    """Dialects in which a model server reads it; it leaves it out of the others, and counts it."""
    inside: str
    """Dialects in which a program in a sandbox may send it."""
    sent: str = ""
    """Dialects of endpoints that are sent it as it is. Neither sent nor lost: it is translated, or of no use there."""
    lost: str = ""
    """Dialects of endpoints that have no equivalent, so that its loss is named."""
    kind: Literal["sampling", "budget"] | None = None
    """What has a kind is given to engines that take ids, and nothing else is. A `budget` is a number of tokens."""
    neutral: float | None = None
    """The value of a sampling parameter that leaves the model's distribution as it is; None: it has none."""


_ALIKE = {
    "temperature top_p": RequestField("rcm", "rcm", sent="rc", kind="sampling", neutral=1.0),
    "top_k": RequestField("rcm", "rcm", sent="rc", kind="sampling", neutral=0),
    "min_p": RequestField("rc", "rc", sent="rc", kind="sampling", neutral=0.0),
    "seed stop": RequestField("rc", "rc", sent="c", lost="r", kind="sampling"),
    "presence_penalty frequency_penalty": RequestField("rc", "rc", sent="c", lost="r", kind="sampling", neutral=0.0),
    "repetition_penalty": RequestField("rc", "rc", sent="c", lost="r", kind="sampling", neutral=1.0),
    "logit_bias": RequestField("c", "c", sent="c", lost="r", kind="sampling"),
    "max_tokens": RequestField("cm", "cm", sent="c", kind="budget"),
    "max_completion_tokens": RequestField("c", "c", sent="c", kind="budget"),
    "max_output_tokens": RequestField("r", "r", kind="budget"),
    "chat_template_kwargs model tools tool_choice stream": RequestField("rcm", "rcm"),
    "extra_body": RequestField("rcm", ""),
    "parallel_tool_calls user": RequestField("rc", "rc", sent="rc"),
    "metadata service_tier": RequestField("rcm", "rcm", sent="r"),
    "store prompt_cache_key": RequestField("rc", "rc", sent="r"),
    "safety_identifier": RequestField("rc", "rc", lost="r"),
    "stream_options": RequestField("rc", "rc"),
    "input instructions include max_tool_calls text truncation": RequestField("r", "r"),
    "reasoning": RequestField("r", "rc"),
    "previous_response_id prompt": RequestField("r", ""),
    "messages": RequestField("cm", "cm"),
    "reasoning_effort response_format": RequestField("c", "c", sent="c"),
    "verbosity": RequestField("c", "c", sent="c", lost="r"),
    "n": RequestField("c", "c"),
    "system stop_sequences output_config": RequestField("m", "m"),
    "thinking": RequestField("m", "cm"),
    "top_logprobs prompt_cache_retention": RequestField("", "rc"),
    "logprobs functions function_call prediction enable_thinking": RequestField("", "c"),
    "context_management": RequestField("", "rm"),
    "client_metadata": RequestField("", "r"),
    "cache_control inference_geo speed": RequestField("", "m"),
}
FIELDS = {name: field for names, field in _ALIKE.items() for name in names.split()}
SAMPLING = tuple(name for name, field in FIELDS.items() if field.kind == "sampling")
BUDGETS = tuple(name for name, field in FIELDS.items() if field.kind == "budget")
NEUTRAL = {name: field.neutral for name, field in FIELDS.items() if field.neutral is not None}
