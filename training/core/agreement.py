"""Do trainer and engine agree about what was sampled? Their log-probs of the same tokens, compared.

Apart   tokens that the step's own weights sampled differ by rounding alone (2e-7 in float32); older tokens differ by
        what was learned since. A wrong KV cache or a stale weight shows in the first.
Formula `mean abs`, `max abs`: of `trainer - engine`. `k3`: mean of `exp(d) - 1 - d`, d = trainer - engine (Schulman
        2020, http://joschu.net/blog/kl-approx.html). `mult`: mean of `exp(|d|)`, the factor between the probabilities.
Source  NeMo-RL, `token_mult_prob_error` and `compute_and_apply_seq_logprob_error_masking`.
Sums    parts are added with `+`: of rows, micro-batches, processes.
Errors  ValueError for log-probs that are not one per id.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paddock.training.core.records import TrainRow

MAX_EXPONENT = 300.0
"""`exp` of more could not be summed."""


@dataclass(frozen=True)
class Agreement:
    """Over some tokens."""

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
    """Of a batch."""

    all: Agreement = Agreement()
    current: Agreement = Agreement()
    """Tokens that the weights of the step sampled."""

    def __add__(self, other: "Agreements") -> "Agreements":
        return Agreements(self.all + other.all, self.current + other.current)

    def metrics(self) -> dict[str, float]:
        """Without the names of what no token was there for."""
        return {
            f"train/logprob_error/{which}/{name}": value
            for which, one in (("all", self.all), ("current", self.current))
            for name, value in _figures(one)
        }


def agreements(row: TrainRow, log_probs: Sequence[float], step: int) -> Agreements:
    """`log_probs`: the trainer's, one per id as in the row; those of tokens that are not trained on have no meaning."""
    if len(log_probs) != len(row.ids):
        raise ValueError(f"{len(log_probs)} log-probs for {len(row.ids)} ids: one per id is needed")
    found = Agreements()
    for span in row.versions:
        one = of_differences(_differences(row, log_probs, span.start, span.end))
        found += Agreements(one, one if span.version == step else Agreement())
    return found


def of_differences(differences: Sequence[float]) -> Agreement:
    """Of tokens' `trainer - engine`."""
    found = [abs(one) for one in differences]
    largest = 0.0
    for one in found:
        largest = _larger(largest, one)
    return Agreement(
        tokens=len(found),
        sum_abs=sum(found),
        max_abs=largest,
        sum_k3=sum(_exp(one) - 1 - min(one, MAX_EXPONENT) for one in differences),
        sum_mult=sum(map(_exp, found)),
    )


def disagreeing(rows: Sequence[TrainRow], log_probs: Sequence[Sequence[float]], threshold: float | None) -> list[int]:
    """Indices of rows that are not trained on for `grpo.seq_logprob_error_threshold`: their mean factor between the
    probabilities is above it, or is no number."""
    if threshold is None:
        return []
    factors = (agreements(row, own, 0).all.mult for row, own in zip(rows, log_probs, strict=True))
    return [nth for nth, factor in enumerate(factors) if not factor <= threshold]


def _differences(row: TrainRow, log_probs: Sequence[float], start: int, end: int) -> list[float]:
    return [log_probs[nth] - row.generation_log_probs[nth] for nth in range(start, end) if row.loss_mask[nth]]


def _figures(one: Agreement) -> Iterator[tuple[str, float]]:
    if one.tokens:
        yield "tokens", float(one.tokens)
        yield "mean_abs", one.mean_abs
        yield "max_abs", one.max_abs
        yield "k3", one.k3
        yield "mult", one.mult


def _exp(value: float) -> float:
    return math.exp(min(value, MAX_EXPONENT))


def _larger(first: float, second: float) -> float:
    """NaN if one of them is: it must not hide."""
    return math.nan if math.isnan(first) or math.isnan(second) else max(first, second)
