"""From a rollout's tree of turns to what the loss sees: samples of exact ids.

Modes   `trajectory`: a sample per leaf of the tree, its whole path: prompt and environment ids, and what was sampled.
        `dynamic_history`: a sample per turn: its prompt, exactly as the model saw it, and what it sampled then.
Law     in either mode each sampled id is trained on once, or its turn is in `skipped`, with the reason. In a trajectory
        what several leaves share is trained on in the first of them, in the order of the record, and is context in the
        others. Ids are the engine's; nothing is tokenised here, and nothing comes from a record of engine `text`.
Memory  samples are made one at a time: all of a rollout's contexts together are far longer than its turns.
Errors  ValueError for an unknown mode. A parent that is not in the record is one without ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Self, get_args

from pydantic import model_validator

from paddock.types import Record, Turn, TurnRecord

Mode = Literal["trajectory", "dynamic_history"]
Reason = Literal["engine_text", "no_ids", "no_ids_before", "no_log_probs", "nothing_sampled"]
"""Why a turn is not trained on: nothing of a `text` engine is proven; the turn, or one before it on its path, has no
ids; it has ids but not what they were sampled with; it sampled nothing."""


class Skipped(NamedTuple):
    """A turn that no sample trains on."""

    turn: str
    reason: Reason


class Span(Record):
    """What one turn sampled, within a sample."""

    turn: str
    start: int
    """Index of its first id."""
    end: int
    """Index after its last."""
    weight_version: str | None
    trained: bool
    """False: it is context here."""


class Sample(Record):
    """Token ids, and which of them are trained on."""

    ids: list[int]
    loss_mask: list[int]
    """1 where the id is trained on, else 0."""
    log_probs: list[float]
    """Of the sampling distribution where the mask is 1, else 0."""
    spans: list[Span]
    """Of the path's turns, in order."""

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        if not len(self.ids) == len(self.loss_mask) == len(self.log_probs):
            raise ValueError(
                f"{len(self.ids)} ids, {len(self.loss_mask)} in the mask and {len(self.log_probs)} log-probs"
            )
        return self

    @property
    def prompt_length(self) -> int:
        """How many ids stand before the first that is trained on."""
        return self.loss_mask.index(1)


def skipped(record: TurnRecord) -> list[Skipped]:
    """The turns that no sample trains on, in the record's order; the same in every mode."""
    if record.engine == "text":
        return [Skipped(turn.id, "engine_text") for turn in record.turns]
    joined: set[str] = set()
    """Turns whose ids are known from the first on."""
    found: list[Skipped] = []
    for turn in record.turns:
        reason = _reason(turn, after_ids=turn.parent is None or turn.parent in joined)
        if reason not in ("no_ids", "no_ids_before"):
            joined.add(turn.id)
        if reason is not None:
            found.append(Skipped(turn.id, reason))
    return found


def samples(record: TurnRecord, mode: Mode) -> Iterator[Sample]:
    """The rollout's samples, in the order of their last turns."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode {mode!r}: not one of {', '.join(get_args(Mode))}")
    left_out = {turn.turn for turn in skipped(record)}
    trained = [turn for turn in record.turns if turn.id not in left_out]
    by_id = {turn.id: turn for turn in record.turns}
    if mode == "dynamic_history":
        return (_sample(_path(by_id, turn), {turn.id}) for turn in trained)
    return _trajectories(by_id, trained)


def _trajectories(by_id: Mapping[str, Turn], trained: Sequence[Turn]) -> Iterator[Sample]:
    todo = {turn.id for turn in trained}
    for leaf in _leaves(by_id, trained):
        path = _path(by_id, leaf)
        here = todo.intersection(turn.id for turn in path)
        todo -= here
        yield _sample(path, here)


def _leaves(by_id: Mapping[str, Turn], trained: Sequence[Turn]) -> list[Turn]:
    """Those that no other of them continues, however remotely."""
    continued: set[str] = set()
    for turn in trained:
        parent = turn.parent
        while parent is not None and parent not in continued:
            continued.add(parent)
            parent = by_id[parent].parent
    return [turn for turn in trained if turn.id not in continued]


def _path(by_id: Mapping[str, Turn], leaf: Turn) -> list[Turn]:
    """Root first."""
    found = [leaf]
    while found[-1].parent is not None:
        found.append(by_id[found[-1].parent])
    found.reverse()
    return found


def _sample(path: Sequence[Turn], trained: set[str]) -> Sample:
    """`path`: root first, each with ids."""
    ids: list[int] = []
    mask: list[int] = []
    log_probs: list[float] = []
    spans: list[Span] = []
    for turn in path:
        assert turn.prompt_ids is not None
        assert turn.sampled_ids is not None
        ids += turn.prompt_ids
        start = len(ids)
        ids += turn.sampled_ids
        here = turn.id in trained
        spans.append(Span(turn=turn.id, start=start, end=len(ids), weight_version=turn.weight_version, trained=here))
        if here:
            assert turn.log_probs is not None
            mask += [0] * (start - len(mask)) + [1] * len(turn.sampled_ids)
            log_probs += [0.0] * (start - len(log_probs)) + turn.log_probs
    padding = len(ids) - len(mask)
    return Sample(ids=ids, loss_mask=mask + [0] * padding, log_probs=log_probs + [0.0] * padding, spans=spans)


def _reason(turn: Turn, *, after_ids: bool) -> Reason | None:
    if turn.prompt_ids is None or turn.sampled_ids is None:
        return "no_ids"
    if not after_ids:
        return "no_ids_before"
    if not turn.sampled_ids:
        return "nothing_sampled"
    return "no_log_probs" if turn.log_probs is None else None
