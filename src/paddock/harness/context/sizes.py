"""How long the parts of a history are, as far as it is known. Part 0 is system, problem and tools; part n is step n.

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
    """Of one rollout's history."""

    def __init__(self, measure: TokenEstimator, extra_tokens: int) -> None:
        """`extra_tokens`: of each request, beside its history; counted with part 0."""
        self.tokens = [extra_tokens]
        """By part."""
        self.total = extra_tokens
        """Of all parts."""
        self._measure = measure
        self._items = [0]
        """By part, how many items of it are measured; the last part may still grow."""
        self._answered: int | None = None
        """Tokens of the answer that makes the next step; None: it was not counted."""
        self._last: list[JsonObject] = []
        """Items of the last part that are no answer."""

    def take_in(self, history: "History") -> None:
        """Measure what is new."""
        known = len(self._items) - 1
        for part, items in enumerate(_parts(history, known), start=known):
            if part == len(self._items):
                self._begin_step(items)
            self._grow(items[self._items[part] :])

    def correct(self, by: int) -> None:
        """The engine counted that many tokens more than were expected."""
        floor = sum(map(item_bytes, self._last)) // MOST_BYTES_PER_TOKEN
        before = self.tokens[-1]
        self.tokens[-1] = max(before + by, floor)
        self.total += self.tokens[-1] - before
        if self._answered is not None:
            self._measure.learn(self._last, self.tokens[-1] - self._answered)

    def answered(self, usage: Usage) -> None:
        """The answer to the last request was counted, and makes the next step; zeros: it was not."""
        self._answered = usage.output_tokens or None

    def _begin_step(self, items: Sequence[JsonObject]) -> None:
        """The answer is measured here, the rest as it grows."""
        size = self._answered
        if size is None:
            size = self._measure.tokens([item for item in items if _is_answer(item)])
        self._last = []
        self._items.append(0)
        self.tokens.append(size)
        self.total += size

    def _grow(self, items: Sequence[JsonObject]) -> None:
        self._items[-1] += len(items)
        new = [item for item in items if len(self._items) == 1 or not _is_answer(item)]
        if new:
            size = self._measure.tokens(new)
            self._last += new
            self.tokens[-1] += size
            self.total += size


def _parts(history: "History", first: int) -> Iterator[Sequence[JsonObject]]:
    if first == 0:
        yield history.fixed
    yield from history.steps[max(0, first - 1) :]


def _is_answer(item: JsonObject) -> bool:
    """Of a step's item: the model gave it."""
    kind = item_type(item)
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")
