"""From a rollout's record and the engine's own log to figures.

Proof   a sample's turn is proven when the log has a call whose prompt is, id by id, what stands before it in the
        sample, whose answer is what it trains on, and whose log-probs are the sample's. A call proves one turn.
Law     nothing is taken from the record that can be had from the log: the log says what was sampled.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from paddock.lab.fidelity.records import Figures, Verdict
from paddock.tokens import Sample, samples
from paddock.types import TurnRecord


class LoggedCall(NamedTuple):
    """One call of the engine, as it was made."""

    prompt: list[int]
    sampled: list[int]
    log_probs: list[float]


class Proof(NamedTuple):
    """What samples train on, beside the log."""

    calls: frozenset[int]
    """Indices of the log's calls whose answer is trained on."""
    unproven_tokens: int


def prove(trained_samples: Sequence[Sample], log: Sequence[LoggedCall]) -> Proof:
    by_length: dict[int, list[int]] = {}
    for nth, call in enumerate(log):
        by_length.setdefault(len(call.prompt), []).append(nth)
    proven: set[int] = set()
    unproven = 0
    for sample in trained_samples:
        remaining = sum(sample.loss_mask)
        for start, end in _trained_ranges(sample):
            candidates = (nth for nth in by_length.get(start, ()) if nth not in proven)
            proof = next((nth for nth in candidates if _is(log[nth], sample, start, end)), None)
            if proof is not None and all(sample.loss_mask[start:end]):
                proven.add(proof)
                remaining -= end - start
        unproven += remaining
    return Proof(frozenset(proven), unproven)


def measure(
    record: TurnRecord,
    log: Sequence[LoggedCall],
    *,
    tokenised_chars: int,
    decode: Callable[[Sequence[int]], str],
) -> Figures:
    """`log`: in the order of the calls."""
    branched = list(samples(record, "branch"))
    by_branch = prove(branched, log)
    by_whole = prove(list(samples(record, "whole")), log)
    sampled = sum(len(call.sampled) for call in log)
    dropped = sampled - _sampled(log, by_branch)
    return Figures(
        verdict=_verdict(len(branched), dropped, by_branch.unproven_tokens),
        calls=len(log),
        continuing=sum(_continues(after, before) for before, after in pairwise(log)),
        branches=len(record.turns) - len({turn.parent for turn in record.turns} - {None}),
        samples=len(branched),
        sampled_tokens=sampled,
        dropped_tokens=dropped,
        dropped_whole_tokens=sampled - _sampled(log, by_whole),
        unproven_tokens=by_branch.unproven_tokens,
        sample_tokens=sum(len(sample.ids) for sample in branched),
        distinct_tokens=distinct_tokens([sample.ids for sample in branched]),
        tokenised_chars=tokenised_chars,
        final_chars=len(decode(log[-1].prompt + log[-1].sampled)) if log else 0,
    )


def distinct_tokens(sequences: Sequence[Sequence[int]]) -> int:
    """Tokens, each counted once with all that stands before it."""
    ordered = sorted(map(list, sequences))
    shared = sum(_common(before, after) for before, after in pairwise(ordered))
    return sum(map(len, ordered)) - shared


def _verdict(n_samples: int, dropped: int, unproven: int) -> Verdict:
    if dropped or unproven or not n_samples:
        return "masked"
    return "exact" if n_samples == 1 else "split"


def _trained_ranges(sample: Sample) -> list[tuple[int, int]]:
    """Where each turn that is trained on starts and ends."""
    places: dict[str, tuple[int, int]] = {}
    for span in sample.spans:
        if span.trained:
            places[span.turn] = (places.get(span.turn, (span.start, 0))[0], span.end)
    return list(places.values())


def _is(call: LoggedCall, sample: Sample, start: int, end: int) -> bool:
    return (
        call.sampled == sample.ids[start:end]
        and call.log_probs == sample.log_probs[start:end]
        and call.prompt == sample.ids[:start]
    )


def _sampled(log: Sequence[LoggedCall], proof: Proof) -> int:
    return sum(len(log[nth].sampled) for nth in proof.calls)


def _continues(after: LoggedCall, before: LoggedCall) -> bool:
    end = len(before.prompt)
    whole = end + len(before.sampled)
    return after.prompt[:end] == before.prompt and after.prompt[end:whole] == before.sampled


def _common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
