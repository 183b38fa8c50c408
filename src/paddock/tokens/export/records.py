"""What a trainer gets: a sample's ids, which of them are trained on, and which weights sampled them.

Shapes  `ids`, `loss_mask` and `log_probs` have one entry per token. Spans are in order and don't overlap; what is in
        none of them is prompt or environment text. One turn has a span per version of the weights that sampled it.
Errors  a sample that is not aligned is a ValidationError.
"""

from typing import Literal, NamedTuple, Self

from pydantic import model_validator

from paddock.types import FinishReason, Record
from paddock.types.routed_experts import text_shape

Mode = Literal["whole", "branch", "dynamic_history", "chain"]
"""`whole`: one sample per rollout, the path to its last turn. `branch`: one per leaf of the tree. `dynamic_history`:
one per turn. `chain`: one per rollout, the path to the last turn of those that follow its first prompt."""
Reason = Literal[
    "engine_text",
    "misplaced",
    "no_ids",
    "no_ids_before",
    "splice_broken",
    "lengths_differ",
    "nothing_sampled",
    "no_log_probs",
    "off_path",
]
"""Why a turn is not trained on. `engine_text`: nothing of such an engine is proven. `misplaced`: its id is taken, or
its parent does not stand before it. `no_ids`, `no_ids_before`: it, or a turn before it on its path, has no ids, or
none that are proven. `splice_broken`: its engine was told to continue a turn's ids, and continued something else.
`lengths_differ`: the engine counted other numbers of tokens than there are ids. `nothing_sampled`: it has nothing to
train on. `no_log_probs`: it has ids but not what they were sampled with. `off_path`: `whole` or `chain` leaves it
out."""


class SkippedTurn(NamedTuple):
    """A turn that no sample trains on."""

    turn: str
    reason: Reason


class Span(Record):
    """What one version of the weights sampled in one turn, within a sample."""

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
    finish_reason: FinishReason | None = None
    """Of the last turn."""
    routed_experts: str | None = None
    """Experts that tokens went through, as `paddock.types.routed_experts` writes them: a row for each id but the last,
    from the first on. None: not recorded, of a part of it at least."""

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        if not len(self.ids) == len(self.loss_mask) == len(self.log_probs):
            raise ValueError(
                f"{len(self.ids)} ids, {len(self.loss_mask)} in the mask and {len(self.log_probs)} log-probs"
            )
        rows = len(self.ids) - 1 if self.routed_experts is None else text_shape(self.routed_experts).rows
        if rows != len(self.ids) - 1:
            raise ValueError(f"{rows} rows of routed experts for {len(self.ids)} ids")
        return self

    @property
    def prompt_length(self) -> int:
        """How many ids stand before the first that is trained on."""
        return self.loss_mask.index(1)

    @property
    def turns(self) -> list[str]:
        """The turns that sampled something here, in order."""
        return list(dict.fromkeys(span.turn for span in self.spans))
