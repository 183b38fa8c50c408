"""Sizes of a history's parts in tokens, counted or estimated. Part 0 is system, problem and tools; part n is step n.

Source  the engine's counts. What it counted beyond what was expected of a request is put to the last part that the
        request shows; of an answer it says itself how long it is. So once the engine has counted a request, the sum of
        what it shows is known exactly, and when the next one is made only the results of its last step are estimated
        (`token_estimators`). With an engine that does not count, all is. A notice of what is left out stays as it was
        estimated: a part may be wrong by what that is, the sum with the notice is not.
Law     no part is taken for less than a token per `MOST_BYTES_PER_TOKEN` bytes of its results' text: where a template
        shows less of old steps once there are newer ones, differences of counts say too little.
Cost    each item is measured once.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from paddock.harness.context.token_estimators import TokenEstimator, item_bytes
from paddock.types import JsonObject, Usage
from paddock.types.responses import item_type

if TYPE_CHECKING:
    from paddock.harness.native.history import History

MOST_BYTES_PER_TOKEN = 6


class Sizes:
    """The sizes of one rollout's history."""

    def __init__(self, estimator: TokenEstimator, extra_tokens: int) -> None:
        """`extra_tokens`: tokens of each request beside its history; counted with part 0."""
        self.tokens = [extra_tokens]
        """Tokens by part."""
        self.total = extra_tokens
        """Tokens of all parts."""
        self._estimator = estimator
        self._items = [0]
        """How many items of each part are counted in; the last part may still grow."""
        self._answer_tokens: int | None = None
        """Tokens of the answer that begins the next step; None: the engine did not count."""
        self._last: list[JsonObject] = []
        """Items of the last part that are no part of the answer."""

    def add_new(self, history: "History") -> None:
        """Estimate the items that are new in the history."""
        last = len(self._items) - 1
        for part, items in enumerate(_parts(history, last), start=last):
            if part == len(self._items):
                self._begin_step(items)
            self._grow(items[self._items[part] :])

    def correct(self, by: int) -> None:
        """Add to the last part the tokens that the engine counted beyond the expected number."""
        floor = sum(map(item_bytes, self._last)) // MOST_BYTES_PER_TOKEN
        before = self.tokens[-1]
        self.tokens[-1] = max(before + by, floor)
        self.total += self.tokens[-1] - before
        if self._answer_tokens is not None:
            self._estimator.calibrate(self._last, self.tokens[-1] - self._answer_tokens)

    def record_answer(self, usage: Usage) -> None:
        """Take the counted tokens of the last answer, which begins the next step; zeros: the engine does not count."""
        self._answer_tokens = usage.output_tokens or None

    def _begin_step(self, items: Sequence[JsonObject]) -> None:
        """Begin a step with the size of its answer; results are added as they come."""
        size = self._answer_tokens
        if size is None:
            size = self._estimator.tokens([item for item in items if _is_answer(item)])
        self._last = []
        self._items.append(0)
        self.tokens.append(size)
        self.total += size

    def _grow(self, items: Sequence[JsonObject]) -> None:
        self._items[-1] += len(items)
        new = [item for item in items if len(self._items) == 1 or not _is_answer(item)]
        if new:
            size = self._estimator.tokens(new)
            self._last += new
            self.tokens[-1] += size
            self.total += size


def _parts(history: "History", first: int) -> Iterator[Sequence[JsonObject]]:
    if first == 0:
        yield history.fixed
    yield from history.steps[max(0, first - 1) :]


def _is_answer(item: JsonObject) -> bool:
    """Whether an item of a step is the model's own."""
    kind = item_type(item)
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")
