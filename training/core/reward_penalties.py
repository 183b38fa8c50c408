"""Penalties that leave a rollout without a positive reward, for faults of form (NeMo-RL's `reward_penalties` block).

Source  NeMo-RL, `apply_reward_penalties`. There a reward below 0 is raised to 0; here it stays: a fault does not lower
        the price of a forgery. Their texts are those of the items of a response, which are here those of its turns.
Errors  none: an item of another shape has no fault.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.types import JsonObject, Turn
from paddock.types.responses import CALLS, content_text, item_type

PenaltyKind = Literal["duplicated_reasoning", "empty_final_answer", "unwanted_tokens", "malformed_think_tag"]


class PenaltyTokenIds(BaseModel):
    """`reward_penalties.token_ids`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unwanted: tuple[int, ...] | None = Field(default=None, min_length=1)
    """Ids that a turn may not hold, its last token included."""
    think_open: int | None = None
    """Id of the tag that opens a thought; needs `think_close`. None: texts alone are looked at (theirs: that of the
    tokenizer, where each tag is one token)."""
    think_close: int | None = None
    """Id of the tag that closes a thought."""


class RewardPenaltySettings(BaseModel):
    """`reward_penalties`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    penalize_duplicated_reasoning: bool = False
    """A thought that the message after it repeats word by word."""
    penalize_empty_final_answer: bool = False
    """A last turn without a text in a message and without a tool call at its end."""
    penalize_unwanted_tokens: bool = False
    """A turn with one of `token_ids.unwanted`."""
    penalize_malformed_think_tag: bool = False
    """A turn with malformed thinking (`env.nemo_gym.thinking_tags`), with an opening tag in a text, or with tags other
    than its prompt leaves open: one closing tag, or none at all (`token_ids`)."""
    token_ids: PenaltyTokenIds = PenaltyTokenIds()
    """Ids of the model's tokenizer; None: there are none."""

    @model_validator(mode="before")
    @classmethod
    def _no_ids(cls, data: object) -> object:
        """The recipes' null."""
        has_none = isinstance(data, dict) and data.get("token_ids", 0) is None
        return {**data, "token_ids": {}} if has_none and isinstance(data, dict) else data

    @model_validator(mode="after")
    def _has_ids(self) -> Self:
        ids = self.token_ids
        if self.penalize_unwanted_tokens and ids.unwanted is None:
            raise ValueError("penalize_unwanted_tokens needs token_ids.unwanted, such as [2]")
        if (ids.think_open is None) != (ids.think_close is None):
            raise ValueError("token_ids.think_open and token_ids.think_close go together: set both or neither")
        return self

    @property
    def enabled(self) -> bool:
        return any(getattr(self, f"penalize_{kind}") for kind in _CHECKS)


def penalties_of(
    turns: Sequence[Turn], settings: RewardPenaltySettings, thinking_tags: Sequence[str], *, malformed_thinking: bool
) -> Iterator[PenaltyKind]:
    """The penalties that are due to a rollout, each once. `thinking_tags`: the opening tag first. `malformed_thinking`:
    whether a turn has that flaw."""
    if settings.penalize_duplicated_reasoning and any(map(_duplicates, turns)):
        yield "duplicated_reasoning"
    if settings.penalize_empty_final_answer and _ends_empty(turns):
        yield "empty_final_answer"
    unwanted = set(settings.token_ids.unwanted or ())
    if settings.penalize_unwanted_tokens and any(unwanted.intersection(turn.sampled_ids or ()) for turn in turns):
        yield "unwanted_tokens"
    if settings.penalize_malformed_think_tag and (
        malformed_thinking
        or any(_opens_thought(turn, thinking_tags[:1]) or _unbalanced(turn, settings.token_ids) for turn in turns)
    ):
        yield "malformed_think_tag"


_CHECKS: tuple[PenaltyKind, ...] = (
    "duplicated_reasoning",
    "empty_final_answer",
    "unwanted_tokens",
    "malformed_think_tag",
)


def _duplicates(turn: Turn) -> bool:
    return any(
        item_type(thought) == "reasoning" and bool(_text(thought)) and _text(thought) == _text(answer)
        for thought, answer in pairwise(turn.output)
    )


def _ends_empty(turns: Sequence[Turn]) -> bool:
    output = turns[-1].output if turns else []
    if output and item_type(output[-1]) in CALLS:
        return False
    return not any(_text(item) for item in output if item_type(item) == "message")


def _opens_thought(turn: Turn, tags: Sequence[str]) -> bool:
    return any(tag in _text(item) for item in turn.output for tag in tags)


def _unbalanced(turn: Turn, ids: PenaltyTokenIds) -> bool:
    if ids.think_open is None or ids.think_close is None or turn.prompt_ids is None or turn.sampled_ids is None:
        return False
    left_open = turn.prompt_ids.count(ids.think_open) - turn.prompt_ids.count(ids.think_close)
    found = (turn.sampled_ids.count(ids.think_open), turn.sampled_ids.count(ids.think_close))
    return left_open not in (0, 1) or found != (0, left_open)


def _text(item: JsonObject) -> str:
    key = "summary" if item_type(item) == "reasoning" else "content"
    return content_text(item.get(key)).strip()
