"""An answer of the scripted model, and its tokens.

Tokens  a byte of text is its value; a role, the end of a turn and the parts of a call have ids of their own. The same
        function renders a sampled turn and that turn in the history, so prompts continue each other id by id. Every
        sampled id's log-prob follows from its position.
"""

from dataclasses import dataclass
from typing import Any

from paddock.types import JsonObject

ROLES = {"system": 256, "developer": 257, "user": 258, "assistant": 259, "tool": 260}
END, REASONING, NAME, ARGUMENTS = 261, 262, 263, 264


@dataclass(frozen=True)
class ScriptedAnswer:
    """One answer."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and raw arguments of each tool call."""
    reasoning: str = ""
    finish_reason: str | None = None
    """None: `tool_calls` or `stop`, as it is."""
    input_tokens: int = 10
    output_tokens: int = 5
    weight_version: str | None = None
    call_ids: bool = True
    """False: the calls have no ids."""

    @property
    def reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def sampled_ids(self) -> list[int]:
        return [*thought_ids(self.reasoning), *self.text.encode(), *calls_ids(self.calls), END]


def prompt_ids(messages: list[JsonObject]) -> list[int]:
    """The rendered history, ready for the next turn."""
    ids: list[int] = []
    for message in messages:
        ids.append(ROLES[message["role"]])
        ids += thought_ids(message.get("reasoning") or message.get("reasoning_content") or "")
        ids += _text(message.get("content")).encode()
        calls = message.get("tool_calls") or []
        ids += calls_ids(tuple((call["function"]["name"], call["function"]["arguments"]) for call in calls))
        ids.append(END)
    return [*ids, ROLES["assistant"]]


def thought_ids(text: str) -> list[int]:
    return [REASONING, *text.encode(), REASONING] if text else []


def calls_ids(calls: tuple[tuple[str, str], ...]) -> list[int]:
    return [token for name, raw in calls for token in (NAME, *name.encode(), ARGUMENTS, *raw.encode())]


def log_probs(start: int, count: int) -> list[float]:
    """Log-probs of the sampled ids from position `start`."""
    return [-0.125 * (position % 8) - 0.1 for position in range(start, start + count)]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
