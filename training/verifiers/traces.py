"""A rollout as verifiers has it: a `Trace` whose message nodes carry the exact samples.

Law     each sample is a chain of nodes of its own, from a root: what verifiers and prime-rl make of it by joining the
        nodes' fields is the sample, id by id. A node is what one turn sampled, or what stands between two of them.
        A turn that a sample has as context only is a node that was not sampled: each turn is trained on once.
Failed  a rollout without a reward is an error: `ok` false, its reward None, no nodes. Both drop it before a baseline.
        So is one of a `train` client without a proven sample.
Experts a row of them for each id, as prime-rl's trainer wants them; the last one of a sample, which no pass went
        over, is that of the id before it, as verifiers' own.
Text    of ids between turns it is decoded; an engine without ids gives a chain of the turns' messages, without tokens.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from verifiers.v1.graph import MessageNode
from verifiers.v1.trace import Error, ModelCall, Reward, Trace
from verifiers.v1.types import AssistantMessage, ToolCall, UserMessage
from verifiers.v1.types import Usage as VerifiersUsage

from paddock.rollouts import TrainingRollout
from paddock.tokens.export import Sample
from paddock.training.core.experts import expert_array
from paddock.types import JsonObject, Turn

REWARD = "reward"
"""The name of the verdict's reward among a trace's rewards."""
TRUNCATED = "max_total_tokens"
"""verifiers' stop condition for a rollout that a budget of ours ended: one of those that it counts as truncated."""
Decode = Callable[[list[int]], str]


class SamplePiece(NamedTuple):
    """A piece of a sample that becomes a node."""

    start: int
    end: int
    turn: str | None
    """The turn that sampled it; None: it stands before or between turns."""


def record(trace: Trace, member: TrainingRollout, *, decode: Decode | None) -> None:
    """Write a rollout that has ended into its trace, whose reward is None before. `decode`: the text of ids, of an
    engine that has to give them; None: of one that need not."""
    trace.info["paddock"] = {
        "outcome": member.outcome,
        "reason": member.reason,
        "mask": member.mask,
        "weight_versions": weight_versions(member),
    }
    trace.record_metrics(member.metrics)
    error = failure_of(member, needs_ids=decode is not None)
    if error is not None:
        trace.errors.append(error)
        trace.stop("error")
        return
    trace.rewards[REWARD] = Reward(score=member.reward)
    turns = {turn.id: turn for turn in member.rollout.turns} if member.rollout else {}
    if decode is None:
        _add_messages(trace, list(turns.values()))
    else:
        for entry in member.samples:
            _add_chain(trace, entry.sample, turns, decode)
    trace.stop(TRUNCATED if member.outcome == "truncated" else "agent_completed")
    trace.ok = True


def failure_of(member: TrainingRollout, *, needs_ids: bool) -> Error | None:
    """Why a rollout has to stay out of baseline and loss; None: it has not."""
    if member.reward is None:
        return Error(type=f"Rollout_{member.outcome}", message=member.failure or member.reason or member.outcome)
    if needs_ids and not member.samples:
        return Error(type="Rollout_not_exact", message="no ids of it are proven")
    return None


def weight_versions(member: TrainingRollout) -> list[str]:
    """The weights that sampled what is trained on, in order."""
    spans = [span for entry in member.samples for span in entry.sample.spans if span.trained]
    return list(dict.fromkeys(span.weight_version for span in spans if span.weight_version is not None))


def sample_pieces(sample: Sample) -> Iterator[SamplePiece]:
    """The whole sample in pieces: what each turn sampled, and what stands around it."""
    reached = 0
    for turn in sample.turns:
        spans = [span for span in sample.spans if span.turn == turn]
        start, end = spans[0].start, spans[-1].end
        if start > reached:
            yield SamplePiece(reached, start, None)
        yield SamplePiece(start, end, turn)
        reached = end
    if reached < len(sample.ids):
        yield SamplePiece(reached, len(sample.ids), None)


def _add_chain(trace: Trace, sample: Sample, turns: dict[str, Turn], decode: Decode) -> None:
    parent = None
    experts = None if sample.routed_experts is None else expert_array(sample.routed_experts)
    if experts is not None:
        experts = np.concatenate([experts, experts[-1:]]).astype(np.uint8 if experts.max() < 256 else np.uint16)
    for piece in sample_pieces(sample):
        ids = sample.ids[piece.start : piece.end]
        mask = [flag == 1 for flag in sample.loss_mask[piece.start : piece.end]]
        given = sample.log_probs[piece.start : piece.end]
        turn = turns[piece.turn] if piece.turn is not None else None
        trace.nodes.append(
            MessageNode(
                parent=parent,
                message=_answer(turn.output) if turn else UserMessage(content=decode(ids)),
                sampled=any(mask),
                token_ids=ids,
                mask=mask,
                logprobs=[value for value, flag in zip(given, mask, strict=True) if flag],
                routed_experts=None if experts is None else experts[piece.start : piece.end].copy(),
            )
        )
        parent = len(trace.nodes) - 1
        if turn is not None and any(mask):
            trace.calls.append(_call(turn, parent, prompt=piece.start, sampled=len(ids)))


def _add_messages(trace: Trace, turns: list[Turn]) -> None:
    trace.nodes.append(MessageNode(message=UserMessage(content=trace.task.data.prompt_text)))
    for turn in turns:
        message = _answer(turn.output)
        trace.nodes.append(MessageNode(parent=len(trace.nodes) - 1, message=message, sampled=True))
        prompt, sampled = (turn.usage.input_tokens, turn.usage.output_tokens) if turn.usage else (0, 0)
        trace.calls.append(_call(turn, len(trace.nodes) - 1, prompt=prompt, sampled=sampled))


def _call(turn: Turn, node: int, *, prompt: int, sampled: int) -> ModelCall:
    return ModelCall(
        node=node,
        finish_reason=turn.finish_reason if turn.finish_reason in ("stop", "length", "tool_calls") else None,
        usage=VerifiersUsage(prompt_tokens=prompt, completion_tokens=sampled),
    )


def _answer(output: list[JsonObject]) -> AssistantMessage:
    """The message that the items of an answer are."""
    texts = [part.get("text", "") for item in output if item.get("type") == "message" for part in _parts(item)]
    thoughts = [
        part.get("text", "")
        for item in output
        if item.get("type") == "reasoning"
        for part in item.get("content") or item.get("summary") or []
    ]
    calls = [
        ToolCall(id=item.get("call_id") or "", name=item["name"], arguments=item.get("arguments") or "")
        for item in output
        if item.get("type") == "function_call"
    ]
    return AssistantMessage(
        content="".join(texts) or None, reasoning_content="".join(thoughts) or None, tool_calls=calls or None
    )


def _parts(item: JsonObject) -> list[Any]:
    content = item.get("content") or []
    return [{"text": content}] if isinstance(content, str) else list(content)
