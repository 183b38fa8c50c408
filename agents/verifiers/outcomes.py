"""What the record of an episode comes to: a response to be judged, or a failure by its owner.

Failure `ProviderError`: what the model failed with, InfraError. `HarnessError`, `SandboxError`, `ToolsetError`,
        `InterceptionError`, a setup that took too long: InfraError. `TaskError` in the setup: RowError; later, or of
        the environment's own hooks: VerifierError. What is no error of verifiers' own is a VerifierError too.
Limit   `truncated` are verifiers' own limits, its `agent` timeout, and an answer that was cut.
"""

from typing import Any

from paddock.errors import InfraError, PaddockError, RowError, VerifierError
from paddock.types import JsonObject
from paddock.types.responses import call_item, content_text, message_item, reasoning_item

MACHINE = frozenset({"HarnessError", "SandboxError", "ToolsetError", "InterceptionError", "TunnelError"})
MAX_TEXT = 600
"""Characters of an error's words."""
KINDS = {
    "ProviderError": "provider_error",
    "HarnessError": "harness_error",
    "SandboxError": "sandbox_error",
    "ToolsetError": "toolset_error",
    "InterceptionError": "interception_error",
    "TunnelError": "interception_error",
    "TaskError": "task_error",
    "EnvError": "env_error",
}


def trace_of(record: JsonObject) -> JsonObject:
    """The trace of the model's seat. Raises what the episode failed with."""
    error = _first_error(record)
    if error is not None:
        raise error
    traces = record["traces"]
    if len(traces) != 1:
        raise VerifierError(
            f"the model's seat has {len(traces)} traces: a rollout has one reward, and so one trace",
            kind="seat_traces",
            retryable=False,
        )
    (trace,) = traces
    stopped = trace.get("stop_condition")
    if stopped == "setup_timeout":
        raise InfraError("the environment's setup took longer than its limit", kind="setup_timeout", stage="sandbox")
    if stopped in ("finalize_timeout", "scoring_timeout"):
        raise VerifierError(f"the environment ended by its {stopped}", kind=stopped, stage="verify")
    return dict(trace)


def is_truncated(trace: JsonObject) -> bool:
    return bool(trace.get("is_truncated")) or trace.get("stop_condition") == "agent_timeout"


def failure_of(said: JsonObject, stage: str | None) -> PaddockError:
    """The failure that an episode's process reports in place of a record, or that its end is."""
    if "row_error" in said:
        return RowError(f"task_data: {said['row_error'][:MAX_TEXT]}", kind="task_invalid")
    return VerifierError(f"the environment: {str(said.get('error'))[:MAX_TEXT]}", kind="env_error", stage=stage)


def output_of(trace: JsonObject) -> list[JsonObject]:
    """Items of the trace's last branch that the model sampled, and the results of its calls."""
    nodes = trace.get("nodes") or []
    branch, at = [], len(nodes) - 1 if nodes else None
    while at is not None:
        branch.append(nodes[at])
        at = nodes[at].get("parent")
    return [item for node in reversed(branch) for item in _items(node)]


def _first_error(record: JsonObject) -> PaddockError | None:
    if record["ok"]:
        return None
    if record["is_timeout"]:
        return InfraError("the episode took longer than env.timeout", kind="episode_timeout")
    traces = [*record["traces"], *record["other_traces"]]
    for trace in traces:
        if not trace.get("ok") and trace.get("errors"):
            return _owned(trace["errors"][-1], setting_up=not (trace["timing"]["agent"]["start"]))
    if record["errors"]:
        return _owned(record["errors"][-1], setting_up=False)
    return VerifierError("the episode failed, and verifiers says no error", kind="env_error")


def _owned(error: JsonObject, *, setting_up: bool) -> PaddockError:
    name: str = error["type"]
    text, kind = f"{name}: {error['message'][:MAX_TEXT]}", KINDS.get(name, name)
    if name == "ProviderError":
        return InfraError(text, kind=kind, stage="model")
    if name in MACHINE:
        return InfraError(text, kind=kind)
    if name == "TaskError" and setting_up:
        return RowError(text, kind="task_setup", stage="sandbox")
    return VerifierError(text, kind=kind)


def _items(node: JsonObject) -> list[JsonObject]:
    message: JsonObject = node["message"]
    if message.get("role") == "tool":
        text = content_text(message.get("content"))
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": text}]
    if not node.get("sampled"):
        return []
    items: list[JsonObject] = []
    if thought := message.get("reasoning_content"):
        items.append(reasoning_item(thought))
    if text := content_text(message.get("content")):
        items.append(message_item(text))
    return [*items, *(_call_of(call) for call in message.get("tool_calls") or [])]


def _call_of(call: dict[str, Any]) -> JsonObject:
    return call_item(call["name"], call["arguments"], call["id"])
