"""NeMo-RL's post-processing of a result: messages of ids, by turn, with flags of flaws.

Source  NVIDIA-NeMo/RL, `_postprocess_nemo_gym_to_nemo_rl_result` and `_postprocess_single_nemo_gym_group`.
Law     as theirs, without torch and without changing the result. Flags are theirs too: of the item that has the ids
        alone, its first text alone; a function call is never flagged (`core.flaws` looks at more, for our own loop).
Errors  RefusedResultError, which has the first violation, where theirs raises while it makes a batch. What theirs takes
        silently is taken here: `checks` finds that.
"""

from typing import Any

from paddock.training.core.flaws import FlawRules
from paddock.training.nemo_rl.checks.results import check_mask, check_reward, is_masked, shape_violation
from paddock.training.nemo_rl.checks.rules import RULES
from paddock.training.nemo_rl.checks.settings import CheckSettings
from paddock.training.nemo_rl.checks.turns import ItemTurn, check_turns, turns_of
from paddock.training.nemo_rl.records import LoggedMessage, ProcessedResult, Result, Violation
from paddock.types import JsonObject

DETECTION = FlawRules()


class RefusedResultError(ValueError):
    """A result that NeMo-RL would refuse: which rule it breaks, and where."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation)
        self.violation = violation


def postprocess(
    result: Result, detection: FlawRules = DETECTION, *, require_routed_experts: bool = False
) -> ProcessedResult:
    """The result as NeMo-RL trains on it. `detection`: the keys of these names in `env.nemo_gym`; empty ones stand for
    the defaults, as in NeMo-RL."""
    flaw = shape_violation(result)
    if flaw is not None:
        raise RefusedResultError(flaw)
    settings = CheckSettings(require_routed_experts=require_routed_experts)
    for violation in (*check_turns(result, settings), *check_reward(result), *check_mask(result)):
        if RULES[violation.rule].effect != "silent":
            raise RefusedResultError(violation)
    messages: list[LoggedMessage] = []
    n_seen = 0
    for turn in turns_of(result):
        invalid, malformed = _flags(turn.body, _with_defaults(detection))
        messages.append(LoggedMessage("user", turn.prompt[n_seen:]))
        messages.append(LoggedMessage("assistant", list(turn.sampled), list(turn.log_probs), invalid, malformed))
        n_seen = _end(turn)
    return ProcessedResult(tuple(messages), float(result["reward"]), is_masked(result))


def _end(turn: ItemTurn) -> int:
    return len(turn.prompt) + len(turn.sampled)


def _with_defaults(rules: FlawRules) -> FlawRules:
    return FlawRules(
        rules.invalid_tool_call_patterns or DETECTION.invalid_tool_call_patterns,
        rules.thinking_tags or DETECTION.thinking_tags,
    )


def _flags(item: JsonObject, rules: FlawRules) -> tuple[bool, bool]:
    """Whether a call did not parse, and whether thinking is out of its place."""
    text, allowed = _first_text(item.get("content")), 0
    if text is None and item.get("type") == "reasoning":
        text, allowed = _first_text(item.get("summary")), 1
    if text is None:
        return False, False
    invalid = any(pattern in text for pattern in rules.invalid_tool_call_patterns)
    return invalid, any(text.count(tag) > allowed for tag in rules.thinking_tags)


def _first_text(parts: Any) -> str | None:
    first = parts[0] if isinstance(parts, list) and parts else None
    text = first.get("text") if isinstance(first, dict) else None
    return text if isinstance(text, str) else None
