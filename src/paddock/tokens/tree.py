"""The tree of turns, token by token: where a turn hangs, and what its whole prompt was.

Law     the full ids of a turn are the full ids of its parent, then its `prompt_ids`, then its `sampled_ids`; so joining
        the deltas along a branch gives exactly the prompts and samples that the engine saw. Nothing is re-tokenised.
Errors  ValueError when a turn names a parent that is not there, or has no ids where ids are asked for.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paddock.types import Turn


class Placement(NamedTuple):
    """Where a new turn hangs."""

    parent: str | None
    """None: no recorded turn is a prefix of its prompt; it starts a branch."""
    prompt_ids: list[int]
    """Ids after the parent's end."""


def full_ids(turns: Sequence[Turn], turn_id: str) -> list[int]:
    """Prompt and sampled ids of a turn, whole."""
    by_id = {turn.id: turn for turn in turns}
    branch: list[Turn] = []
    at: str | None = turn_id
    while at is not None:
        if at not in by_id or len(branch) > len(turns):
            raise ValueError(f"turn {turn_id}: its ancestor {at} is not in the record")
        branch.append(by_id[at])
        at = by_id[at].parent
    ids: list[int] = []
    for turn in reversed(branch):
        if turn.prompt_ids is None or turn.sampled_ids is None:
            raise ValueError(f"turn {turn.id} has no token ids")
        ids += turn.prompt_ids
        ids += turn.sampled_ids
    return ids


def full_prompt(turns: Sequence[Turn], turn_id: str) -> list[int]:
    """The whole prompt of a turn."""
    ids = full_ids(turns, turn_id)
    sampled = next(turn.sampled_ids for turn in turns if turn.id == turn_id) or []
    return ids[: len(ids) - len(sampled)]


def place(turns: Sequence[Turn], prompt_ids: Sequence[int]) -> Placement:
    """Hang a prompt below the turn with the longest full ids that it continues; the latest of equals."""
    prompt = list(prompt_ids)
    best, length = None, -1
    for turn in turns:
        if turn.prompt_ids is None or turn.sampled_ids is None:
            continue
        ids = full_ids(turns, turn.id)
        if len(ids) >= length and prompt[: len(ids)] == ids:
            best, length = turn.id, len(ids)
    return Placement(None, prompt) if best is None else Placement(best, prompt[length:])
