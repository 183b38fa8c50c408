"""A record's samples in one of four modes.

Modes   `whole`: one sample at most, the path to the record's last turn; turns beside that path are `off_path`.
        `chain`: one sample at most, for trainers that compare rollouts by their first prompts: of the paths that begin
        with the prompt of the record's first turn, the one to the last turn that can be trained on. So a title's, a
        sub-agent's or a summary's own prompt is off the path, though it came last or has more tokens; of a call that
        was made again the last answer counts, for the client went on with that. Where the first turn on the path can't
        be trained on there is no sample: its first prompt would be no other rollout's.
        `branch`: a sample per leaf of the tree, its whole path. What several leaves share is trained on in the first of
        them, in the order of the record, and is context in the others.
        `dynamic_history`: a sample per turn: its prompt, exactly as the model saw it, and what it sampled then.
Law     in any mode each sampled id is trained on once, or its turn is in `skipped`, with the reason. Ids are the
        engine's, end to end; nothing is tokenised here, and nothing comes from a record of engine `text`. A path ends
        with the last turn that is trained on.
Memory  a plan has no ids, samples are made one at a time: all of a rollout's contexts are far longer than its turns.
Errors  ValueError for an unknown mode.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from paddock.tokens.export.exact_turns import ExactTurns, exact_turns
from paddock.tokens.export.records import Mode, Sample, SkippedTurn, Span
from paddock.types import RoutedExperts, Turn, TurnRecord, WeightSpan


class PlannedSample(NamedTuple):
    """A sample before it is made."""

    leaf: str
    """Its last turn."""
    trained: frozenset[str]
    """The turns of the path that are trained on in it."""


class SamplePath(NamedTuple):
    """The turns that a sample is made of."""

    turns: Sequence[Turn]
    """Root first, each with ids."""
    trained: frozenset[str]
    """Those that are trained on."""
    spans: list[Span]


class SamplePlan(NamedTuple):
    """All samples of a record in one mode."""

    planned: list[PlannedSample]
    """In the order of their last turns."""
    skipped: list[SkippedTurn]
    """The turns that no sample trains on, in the record's order."""
    exact: ExactTurns

    def make(self) -> Iterator[Sample]:
        return (_sample(self.exact.path(sample.leaf), sample.trained) for sample in self.planned)

    def paths(self) -> Iterator[SamplePath]:
        """The samples before their tokens are joined, for what makes arrays of them."""
        return (_path(self.exact.path(sample.leaf), sample.trained) for sample in self.planned)

    @property
    def tokens(self) -> int:
        """Of all samples."""
        return sum(self.exact.ends[sample.leaf] for sample in self.planned)

    @property
    def distinct_tokens(self) -> int:
        """Of the turns that the samples are made of, each counted once."""
        turns = _with_ancestors(self.exact.placed, (sample.leaf for sample in self.planned))
        return sum(map(_own_tokens, map(self.exact.placed.__getitem__, turns)))

    @property
    def trained_tokens(self) -> int:
        placed = self.exact.placed
        return sum(len(placed[turn].sampled_ids or ()) for sample in self.planned for turn in sample.trained)


def plan(record: TurnRecord, mode: Mode) -> SamplePlan:
    exact = exact_turns(record)
    trained = [turn for turn, reason in zip(record.turns, exact.reasons, strict=True) if reason is None]
    if mode == "dynamic_history":
        planned = [PlannedSample(turn.id, frozenset([turn.id])) for turn in trained]
    elif mode == "branch":
        planned = list(_branches(exact, trained))
    elif mode == "chain":
        planned = list(_chain(exact, record.turns, {turn.id for turn in trained}))
    elif mode == "whole":
        planned = list(_whole(exact, record.turns, {turn.id for turn in trained}))
    else:
        raise ValueError(f"mode {mode!r}: not one of {', '.join(get_args(Mode))}")
    here = {turn for sample in planned for turn in sample.trained}
    skipped = [
        SkippedTurn(turn.id, reason or "off_path")
        for turn, reason in zip(record.turns, exact.reasons, strict=True)
        if reason is not None or turn.id not in here
    ]
    return SamplePlan(planned, skipped, exact)


def samples(record: TurnRecord, mode: Mode) -> Iterator[Sample]:
    """The rollout's samples, in the order of their last turns."""
    return plan(record, mode).make()


def skipped(record: TurnRecord, mode: Mode) -> list[SkippedTurn]:
    """The turns that no sample trains on, in the record's order."""
    return plan(record, mode).skipped


def _whole(exact: ExactTurns, turns: Sequence[Turn], trained: set[str]) -> Iterator[PlannedSample]:
    if not turns or exact.placed.get(turns[-1].id) is not turns[-1]:
        return
    path = [turn.id for turn in exact.path(turns[-1].id)]
    here = trained.intersection(path)
    if here:
        yield PlannedSample(next(turn for turn in reversed(path) if turn in here), frozenset(here))


def _chain(exact: ExactTurns, turns: Sequence[Turn], trained: set[str]) -> Iterator[PlannedSample]:
    first = turns[0].prompt_ids if turns else None
    if not first:
        return
    before: set[str] = set()
    """Turns that begin with the first prompt, and have nothing on their paths that is trained on."""
    chained: set[str] = set()
    """Those with something, the first of it sampled on the first prompt."""
    last: str | None = None
    for turn in turns:
        if exact.placed.get(turn.id) is not turn:
            continue
        begins = turn.prompt_ids == first if turn.parent is None else turn.parent in before
        if turn.id not in trained and begins:
            before.add(turn.id)
        elif turn.parent in chained or (begins and exact.ends[turn.id] - len(turn.sampled_ids or ()) == len(first)):
            chained.add(turn.id)
            last = turn.id if turn.id in trained else last
    if last is not None:
        yield PlannedSample(last, frozenset(trained.intersection(turn.id for turn in exact.path(last))))


def _branches(exact: ExactTurns, trained: Sequence[Turn]) -> Iterator[PlannedSample]:
    todo = {turn.id for turn in trained}
    before = _with_ancestors(exact.placed, (turn.parent for turn in trained if turn.parent is not None))
    for leaf in trained:
        if leaf.id not in before:
            here = todo.intersection(turn.id for turn in exact.path(leaf.id))
            todo -= here
            yield PlannedSample(leaf.id, frozenset(here))


def _with_ancestors(placed: Mapping[str, Turn], turns: Iterable[str]) -> set[str]:
    chosen: set[str] = set()
    for turn in turns:
        current: str | None = turn
        while current is not None and current not in chosen:
            chosen.add(current)
            current = placed[current].parent
    return chosen


def _own_tokens(turn: Turn) -> int:
    return len(turn.prompt_ids or ()) + len(turn.sampled_ids or ())


def _sample(path: Sequence[Turn], trained: frozenset[str]) -> Sample:
    """`path`: root first, each with ids."""
    ids: list[int] = []
    mask: list[int] = []
    log_probs: list[float] = []
    for turn in path:
        assert turn.prompt_ids is not None
        assert turn.sampled_ids is not None
        ids += turn.prompt_ids
        start = len(ids)
        ids += turn.sampled_ids
        if turn.id in trained:
            assert turn.log_probs is not None
            mask += [0] * (start - len(mask)) + [1] * len(turn.sampled_ids)
            log_probs += [0.0] * (start - len(log_probs)) + turn.log_probs
    padding = len(ids) - len(mask)
    return Sample(
        ids=ids,
        loss_mask=mask + [0] * padding,
        log_probs=log_probs + [0.0] * padding,
        spans=_path(path, trained).spans,
        finish_reason=path[-1].finish_reason,
        routed_experts=None if (experts := routed_experts_of(path)) is None else experts.to_text(),
    )


def _path(path: Sequence[Turn], trained: frozenset[str]) -> SamplePath:
    spans: list[Span] = []
    end = 0
    for turn in path:
        start = end + len(turn.prompt_ids or ())
        end = start + len(turn.sampled_ids or ())
        spans += _spans(turn, start, trained=turn.id in trained)
    return SamplePath(path, trained, spans)


def routed_experts_of(path: Sequence[Turn]) -> RoutedExperts | None:
    """Of the whole path, root first; None where one of its turns has none."""
    parts: list[RoutedExperts] = []
    for turn in path:
        if turn.routed_experts is None:
            return None
        parts.append(RoutedExperts.from_text(turn.routed_experts, parts[-1].end if parts else 0))
    return RoutedExperts.join(parts)


def _spans(turn: Turn, start: int, *, trained: bool) -> Iterator[Span]:
    """`start`: index of the turn's first sampled id in the sample."""
    length = len(turn.sampled_ids or ())
    parts = turn.weight_spans
    if not parts and length:
        parts = [WeightSpan(version=turn.weight_version, start=0, end=length)]
    for part in parts:
        yield Span(
            turn=turn.id,
            start=start + part.start,
            end=start + part.end,
            weight_version=part.version,
            trained=trained,
        )
