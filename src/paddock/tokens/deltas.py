"""Delta coding of prompts: a turn keeps only the ids that are new since its parent's end.

Law     the full ids of a turn are its parent's full ids, its `prompt_ids`, its `sampled_ids`: whatever is recorded so
        joins to exactly the prompts and samples that the engine gave (the prefix property, checked id by id).
Shapes  turns oldest first, each parent before its children.
Errors  ids that are absent (None) anywhere on the way make the joined ids None: nothing is guessed. An id that names no
        turn is a KeyError.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paddock.types import Turn


class Placement(NamedTuple):
    """Where a prompt hangs in the tree of a rollout's turns."""

    parent: str | None
    """The turn that the prompt continues id by id; None: it starts a branch."""
    prompt_ids: list[int]
    """Ids after the parent's end."""

    def first_row(self, prompt_length: int) -> int:
        """Position of the first token whose experts are the turn's to record, of a prompt of so many tokens: the
        parent's last, which no pass of the parent's went over."""
        start = prompt_length - len(self.prompt_ids)
        return start if self.parent is None else start - 1


def chain(turns: Iterable[Turn], turn_id: str) -> list[Turn]:
    """The turn and its ancestors, root first."""
    by_id = {turn.id: turn for turn in turns}
    path = [by_id[turn_id]]
    while path[-1].parent is not None:
        path.append(by_id[path[-1].parent])
    path.reverse()
    return path


def full_prompt(turns: Iterable[Turn], turn_id: str) -> list[int] | None:
    """The whole prompt of a turn."""
    *ancestors, turn = chain(turns, turn_id)
    before = _join(ancestors)
    return None if before is None or turn.prompt_ids is None else before + turn.prompt_ids


def split_prompt(parents: Sequence[Turn], prompt: Sequence[int]) -> list[int] | None:
    """The ids of `prompt` after the end of a chain (root first); None when the chain is no prefix of it."""
    before = _join(parents)
    if before is None or list(prompt[: len(before)]) != before:
        return None
    return list(prompt[len(before) :])


def place(turns: Iterable[Turn], prompt: list[int]) -> Placement:
    """Hang a prompt below the turn whose full ids are its longest prefix; of equal ones, the latest.

    One pass over the tree: a subtree is left as soon as its root differs.
    """
    ends: dict[str, int] = {}
    parent, parent_end = None, 0
    for turn in turns:
        start = 0 if turn.parent is None else ends.get(turn.parent)
        if start is None or turn.prompt_ids is None or turn.sampled_ids is None:
            continue
        middle = start + len(turn.prompt_ids)
        end = middle + len(turn.sampled_ids)
        if end > len(prompt) or prompt[start:middle] != turn.prompt_ids or prompt[middle:end] != turn.sampled_ids:
            continue
        ends[turn.id] = end
        if end >= parent_end:
            parent, parent_end = turn.id, end
    return Placement(parent, prompt[parent_end:])


def _join(turns: Iterable[Turn]) -> list[int] | None:
    ids: list[int] = []
    for turn in turns:
        if turn.prompt_ids is None or turn.sampled_ids is None:
            return None
        ids += turn.prompt_ids
        ids += turn.sampled_ids
    return ids
