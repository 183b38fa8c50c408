"""Spans with the names and attributes of the conventions for generative AI.

Source  https://github.com/open-telemetry/semantic-conventions-genai, `docs/gen-ai/`: `invoke_agent`, `chat`,
        `execute_tool`, `gen_ai.*`, `error.type`. Ours are `paddock.*`: what is on a rollout's line in `index.jsonl`.
"""

from collections.abc import Awaitable
from typing import Protocol

from paddock.tracing.spans import AnySpan, Attribute, name_of_open_span, span
from paddock.types import Rollout, Stamp

PROVIDER = "paddock"
"""`gen_ai.provider.name`: which program makes the calls; an engine behind a server may be anybody's."""
MAX_NAME_CHARS = 100
"""Of a tool's name, which the model chose."""


async def traced_rollout(run: Awaitable[Rollout], agent: str, stamp: Stamp, *, apart: bool = False) -> Rollout:
    """Await one rollout of an agent in a span; in none of its own where its caller in this process has opened it.
    `apart`: the agent is a server of another process, and this is its caller's."""
    name = f"invoke_agent {agent}"
    if name == name_of_open_span():
        return await run
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.agent.name": agent,
        "paddock.run.id": stamp.run_id,
        "paddock.group.id": stamp.group_id,
        "paddock.member": stamp.member,
        "paddock.attempt": stamp.attempt,
    }
    with span(name, "client" if apart else "internal", attributes) as open_span:
        rollout = await run
        _note_rollout(open_span, rollout)
        return rollout


def _note_rollout(open_span: AnySpan, rollout: Rollout) -> None:
    """How a rollout ended, on its span: any outcome that is no verdict is an error."""
    verdict, failure = rollout.verdict, rollout.failure
    attributes: dict[str, Attribute] = {
        "paddock.outcome": rollout.outcome,
        "paddock.row.name": rollout.row.name,
        "gen_ai.usage.input_tokens": rollout.usage.input_tokens if rollout.usage else None,
        "gen_ai.usage.output_tokens": rollout.usage.output_tokens if rollout.usage else None,
    }
    if verdict is not None:
        attributes |= {"paddock.reward": verdict.reward, "paddock.reason": verdict.reason}
    open_span.note(attributes)
    if failure is not None:
        open_span.note({"paddock.stage": failure.stage})
        open_span.fail(f"{failure.owner}.{failure.kind}", failure.message)


def chat_span(model: str, *, dialect: str, stream: bool) -> AnySpan:
    """One call of an engine by a model server."""
    return span(
        f"chat {model}",
        "client",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": model,
            "gen_ai.request.stream": stream,
            "paddock.dialect": dialect,
        },
    )


class CallCounts(Protocol):
    """Token counts of one call."""

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...

    @property
    def cached_tokens(self) -> int: ...

    @property
    def reasoning_tokens(self) -> int: ...


def note_chat(
    open_span: AnySpan, *, response_id: str, model: str | None, finish_reason: str | None, counts: CallCounts | None
) -> None:
    """What the engine answered. `response_id`: of the turn that records it, in a rollout; `model`: as it names it."""
    open_span.note(
        {
            "gen_ai.response.id": response_id,
            "gen_ai.response.model": model,
            "gen_ai.response.finish_reasons": [finish_reason] if finish_reason else None,
        }
    )
    if counts is not None:
        open_span.note(
            {
                "gen_ai.usage.input_tokens": counts.input_tokens,
                "gen_ai.usage.output_tokens": counts.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": counts.cached_tokens,
                "gen_ai.usage.reasoning.output_tokens": counts.reasoning_tokens,
            }
        )


def tool_span(name: str, call_id: str) -> AnySpan:
    """One call of a tool, by the name that the model wrote."""
    name = name[:MAX_NAME_CHARS]
    return span(
        f"execute_tool {name}",
        "internal",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id or None},
    )
