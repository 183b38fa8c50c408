"""The levels and the options of the layered comparator for one expected and one actual call.

Order   kind, arguments, target, likeness, size; the first that fails names the reason. Size only takes away, and only
        from an edit in `continuous` mode.
Law     the arguments level cannot be switched off: what does not decode to an object, or lacks what the expert gave and
        the kind needs, earns 0.
"""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from paddock.resources_servers.pivot.layered_fields import (
    ArgumentFields,
    DecodedCall,
    is_empty,
    pair_fields,
    same_tool,
    text_of,
)
from paddock.resources_servers.pivot.layered_kinds import CONTENT_ROLES
from paddock.resources_servers.pivot.layered_similarity import similarity
from paddock.resources_servers.pivot.layered_target import target_miss
from paddock.types import Json, Record

Reason = Literal[
    "no_action",
    "message_expected",
    "message_empty",
    "message_cut",
    "call_expected",
    "too_long",
    "kind_differs",
    "arguments_invalid",
    "arguments_missing",
    "target_differs",
    "similarity_below_threshold",
    "calls_missing",
    "surplus_calls",
    "partial_match",
    "match",
]

SHELL_FLOOR = 0.3
"""Likeness that two commands of one program need to share a target."""
SIZE_CHARS = 500
"""Characters of an edit at which shaping takes all it may."""


class LayeredOptions(Record):
    """The keys of NeMo-Gym's `swe_pivot`, with its defaults."""

    reward_mode: Literal["binary", "continuous"] = "binary"
    """Per call: 0 or 1, or partial credit between the two thresholds."""
    enable_target_match: bool = True
    """Level 1. False: any target passes."""
    enable_argument_similarity: bool = True
    """Level 2. False: any content passes that is there."""
    similarity_threshold: float = Field(default=0.4, ge=0, le=1)
    """`continuous`: likeness that earns 0.5; below it, 0."""
    similarity_full_credit: float = Field(default=0.8, ge=0, le=1)
    """Likeness that earns 1."""
    enable_diff_size_shaping: bool = True
    """`continuous`: whether long edits cost."""
    diff_size_alpha: float = Field(default=0.1, ge=0, le=1)
    """Share of the reward that an edit of 500 or more characters loses; shorter ones lose in proportion. 0: none."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.similarity_threshold > self.similarity_full_credit:
            raise ValueError("similarity_threshold is over similarity_full_credit")
        return self


class Judgement(NamedTuple):
    """How a pair of calls came through the levels."""

    reward: float
    reason: Reason
    detail: str = ""
    kind_match: bool = False
    target_match: bool | None = None
    """None: the level was off or not reached."""
    likeness: float | None = None
    """None: the level was off or not reached. Where it earns nothing: a bound that is too low to earn anything."""
    size_penalty: float = 0.0


def judge(expected: DecodedCall, actual: DecodedCall, options: LayeredOptions) -> Judgement:
    """Put a pair of calls through the levels."""
    kind = expected.kind
    if not same_tool(expected, actual) and (kind == "other" or actual.kind != kind):
        return Judgement(0.0, "kind_differs", f"expected {expected.name!r} ({kind}), got {actual.name[:60]!r}")
    failed = Judgement(0.0, "arguments_invalid", f"{expected.name}: arguments are no JSON object", kind_match=True)
    if actual.arguments is None:
        return failed
    fields = pair_fields(expected, actual)
    if fields.missing:
        detail = f"{expected.name}: {fields.missing} is missing or empty"
        return failed._replace(reason="arguments_missing", detail=detail)
    if fields.invalid:
        return failed._replace(detail=f"{expected.name}: {fields.invalid} is of another type")
    miss = target_miss(kind, fields) if options.enable_target_match else ""
    likeness = _likeness(expected, fields, options)
    if not miss and _below_shell_floor(expected, likeness, options):
        miss = "another command"
    if miss:
        return failed._replace(reason="target_differs", detail=f"{expected.name}: {miss}", target_match=False)
    passed = Judgement(1.0, "match", kind_match=True, target_match=options.enable_target_match or None)
    return _shape_reward(_credit(expected, passed, likeness, options), expected, fields, options)


def _below_shell_floor(expected: DecodedCall, likeness: float | None, options: LayeredOptions) -> bool:
    return expected.kind == "shell" and options.enable_target_match and (likeness or 0.0) < SHELL_FLOOR


def _likeness(expected: DecodedCall, fields: ArgumentFields, options: LayeredOptions) -> float | None:
    """Return the least likeness of the content; below what can change the judgement, a bound of it."""
    shell = expected.kind == "shell"
    if not options.enable_argument_similarity and not (shell and options.enable_target_match):
        return None
    names: list[str]
    if fields.by_role:
        names = [role for role in CONTENT_ROLES.get(expected.kind, ()) if role in fields.needed]
    else:
        names = [] if expected.kind in ("finish", "think", "plan") else list(fields.needed)
    floor = options.similarity_full_credit if options.reward_mode == "binary" else options.similarity_threshold
    floor = min(SHELL_FLOOR, floor) if shell else floor
    pairs = (fields.needed[name] for name in names)
    return min((_value_likeness(pair.expected, pair.actual, floor) for pair in pairs), default=1.0)


def _value_likeness(expected: Json, actual: Json, floor: float) -> float:
    if is_empty(expected) and is_empty(actual):
        return 1.0
    if isinstance(expected, bool | int | float):
        return float(expected == actual)
    return similarity(text_of(expected), text_of(actual), floor)


def _credit(expected: DecodedCall, passed: Judgement, likeness: float | None, options: LayeredOptions) -> Judgement:
    if likeness is None or not options.enable_argument_similarity:
        return passed
    passed = passed._replace(likeness=likeness)
    low, full = options.similarity_threshold, options.similarity_full_credit
    if likeness >= full:
        return passed
    if options.reward_mode == "binary" or likeness < low:
        detail = f"{expected.name}: likeness below {full if options.reward_mode == 'binary' else low}"
        return passed._replace(reward=0.0, reason="similarity_below_threshold", detail=detail)
    credit = 0.5 + 0.5 * (likeness - low) / (full - low)
    return passed._replace(reward=credit, reason="partial_match", detail=f"{expected.name}: likeness {likeness:.3f}")


def _shape_reward(
    judgement: Judgement, expected: DecodedCall, fields: ArgumentFields, options: LayeredOptions
) -> Judgement:
    if expected.kind != "edit" or options.reward_mode != "continuous" or not options.enable_diff_size_shaping:
        return judgement
    characters = sum(len(fields.actual_text(role)) for role in CONTENT_ROLES["edit"])
    penalty = options.diff_size_alpha * min(characters / SIZE_CHARS, 1.0)
    return judgement._replace(reward=judgement.reward * (1.0 - penalty), size_penalty=penalty)
