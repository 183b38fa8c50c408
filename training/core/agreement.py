"""Do trainer and engine agree about what was sampled? Their log-probs of the same tokens, compared.

Apart   tokens that the step's own weights sampled differ by rounding alone (2e-7 in float32); older tokens differ by
        what was learned since. A wrong KV cache or a stale weight shows in the first.
Formula `mean abs`, `max abs`: of `trainer - engine`. `k3`: mean of `exp(d) - 1 - d`, d = trainer - engine (Schulman
        2020, http://joschu.net/blog/kl-approx.html). `mult`: mean of `exp(|d|)`, the factor between the probabilities.
Source  NeMo-RL, `token_mult_prob_error` and `compute_and_apply_seq_logprob_error_masking`.
Sums    parts are added with `+`: of rows, micro-batches, processes.
Errors  ValueError for log-probs that are not one per trained token.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from paddock.training.core.records import TrainRow

MAX_EXPONENT = 300.0
"""`exp` of more could not be summed."""


@dataclass(frozen=True)
class Agreement:
    """How far trainer and engine agree over some tokens: sums, which can be added, and means."""

    tokens: int = 0
    sum_abs: float = 0.0
    max_abs: float = 0.0
    sum_k3: float = 0.0
    sum_mult: float = 0.0

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(
            tokens=self.tokens + other.tokens,
            sum_abs=self.sum_abs + other.sum_abs,
            max_abs=_larger(self.max_abs, other.max_abs),
            sum_k3=self.sum_k3 + other.sum_k3,
            sum_mult=self.sum_mult + other.sum_mult,
        )

    @property
    def mean_abs(self) -> float:
        return self.sum_abs / max(self.tokens, 1)

    @property
    def k3(self) -> float:
        return self.sum_k3 / max(self.tokens, 1)

    @property
    def mult(self) -> float:
        return self.sum_mult / max(self.tokens, 1)


@dataclass(frozen=True)
class Agreements:
    """Agreement over a batch, or a part of it."""

    all: Agreement = Agreement()
    current: Agreement = Agreement()
    """Over the tokens that the weights of the step sampled."""

    def __add__(self, other: "Agreements") -> "Agreements":
        return Agreements(self.all + other.all, self.current + other.current)

    def metrics(self) -> dict[str, float]:
        """The metrics by name; a name without tokens is missing."""
        return {
            f"train/logprob_error/{which}/{name}": value
            for which, agreement in (("all", self.all), ("current", self.current))
            for name, value in _figures(agreement)
        }


def agreements(row: TrainRow, log_probs: ArrayLike, step: int) -> Agreements:
    """The agreement over one row. `log_probs`: the trainer's, one per trained token of the row. ValueError where they
    are not as many."""
    at = np.flatnonzero(row.loss_mask)
    trainer = np.asarray(log_probs, np.float64)
    if len(trainer) != len(at):
        raise ValueError(f"{len(trainer)} log-probs for {len(at)} trained tokens: one for each is needed")
    with np.errstate(invalid="ignore"):
        differences = trainer - row.generation_log_probs[at]
    current = np.zeros(len(at), np.bool_)
    for span in row.versions:
        if span.version == step:
            current[slice(*np.searchsorted(at, (span.start, span.end)))] = True
    of_current = agreement_of(differences[current])
    return Agreements(agreement_of(differences[~current]) + of_current, of_current)


def agreement_of(differences: ArrayLike) -> Agreement:
    """The agreement over tokens, from the `trainer - engine` of each."""
    signed = np.asarray(differences, np.float64)
    if not signed.size:
        return Agreement()
    errors = np.abs(signed)
    bounded = np.minimum(signed, MAX_EXPONENT)
    with np.errstate(invalid="ignore", over="ignore"):
        return Agreement(
            tokens=signed.size,
            sum_abs=float(errors.sum()),
            max_abs=float(errors.max()),
            sum_k3=float((np.exp(bounded) - 1 - bounded).sum()),
            sum_mult=float(np.exp(np.minimum(errors, MAX_EXPONENT)).sum()),
        )


def disagreeing_rows(rows: Sequence[TrainRow], log_probs: Sequence[ArrayLike], threshold: float | None) -> list[int]:
    """Indices of rows that are not trained on for `grpo.seq_logprob_error_threshold`: their mean factor between the
    probabilities is above it, or is no number. `log_probs`: as for `agreements`."""
    if threshold is None:
        return []
    factors = (agreements(row, own, 0).all.mult for row, own in zip(rows, log_probs, strict=True))
    return [nth for nth, factor in enumerate(factors) if not factor <= threshold]


def _figures(agreement: Agreement) -> Iterator[tuple[str, float]]:
    if agreement.tokens:
        yield "tokens", float(agreement.tokens)
        yield "mean_abs", agreement.mean_abs
        yield "max_abs", agreement.max_abs
        yield "k3", agreement.k3
        yield "mult", agreement.mult


def _larger(first: float, second: float) -> float:
    """The larger of two numbers, or NaN if one of them is NaN."""
    return math.nan if math.isnan(first) or math.isnan(second) else max(first, second)
