"""Keeps the head and the tail of a history within a budget of tokens.

Law     no request is longer than `max_tokens`, as far as lengths are known (`sizes`). System, problem and the last step
        are always shown, steps whole and in order; between head and tail a user message says how many are left out.
        While everything fits, everything is shown.
Shares  of what is left beside system, problem, tools and that message, `head_share` is for the first steps, the rest
        for the last. Where the head's steps take less, or its first step is larger than its share (then it is empty),
        the tail has what they leave. A last step that is larger than the tail's room takes it from the head.
Stable  a range that was left out stays so, and requests continue each other token by token, until the tail has grown
        to the budget. Then a new range is left out, from the head to a tail of `refill_share` of its room: a branch.
        So there is a branch per that many new tokens, not per step.
Errors  ContextExceeded when system and problem, or the last step beside them, are over the budget.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import orjson

from paddock.harness.context.sizes import Sizes
from paddock.harness.context.token_estimators import TokenEstimator
from paddock.harness.contract import ContextExceeded
from paddock.types import JsonObject, Usage

if TYPE_CHECKING:
    from paddock.harness.native.history import History


class OmittedRange(NamedTuple):
    """The range of steps that is left out: from `first` to before `end`, counted from 0."""

    first: int
    end: int


class HeadTail:
    """The context policy of one rollout."""

    def __init__(
        self,
        *,
        max_tokens: int,
        head_share: float,
        refill_share: float,
        notice: str,
        estimator: TokenEstimator,
        tools: Sequence[JsonObject] = (),
    ) -> None:
        self.omitted: OmittedRange | None = None
        """None: everything is shown."""
        self._max_tokens = max_tokens
        self._head_share = head_share
        self._refill_share = refill_share
        self._notice_text = notice
        self._estimator = estimator
        self._sizes = Sizes(estimator, estimator.text_tokens(orjson.dumps(tools).decode()) if tools else 0)
        self._shown_tokens = 0
        """Tokens of the last request."""
        self._total_then = 0
        """Tokens of the whole history when that request was made."""

    def fit(self, history: "History") -> list[JsonObject]:
        self._sizes.add_new(history)
        shown = self._shown_tokens + self._sizes.total - self._total_then
        if shown > self._max_tokens:
            shown = self._leave_out(len(history.steps))
        self._shown_tokens, self._total_then = shown, self._sizes.total
        if self.omitted is None:
            return history.items()
        first, end = self.omitted
        items = [*history.fixed]
        for step in history.steps[:first]:
            items += step
        items.append(self._notice(end - first))
        for step in history.steps[end:]:
            items += step
        return items

    def record_usage(self, usage: Usage) -> None:
        if usage.input_tokens:
            self._sizes.correct(usage.input_tokens - self._shown_tokens)
            self._shown_tokens, self._total_then = usage.input_tokens, self._sizes.total
        self._sizes.record_answer(usage)

    def _leave_out(self, steps: int) -> int:
        """Choose a new range; return the tokens of the request without it. Raises ContextExceeded."""
        fixed, *sizes = self._sizes.tokens
        notice = self._estimator.tokens([self._notice(steps)])
        room = self._max_tokens - fixed - notice
        if steps < 2 or sizes[-1] > room:
            what = f"the last step {sizes[-1]}" if steps else "there is no step yet"
            raise ContextExceeded(
                f"system, problem and tools take {fixed} tokens, {what}: over the budget of {self._max_tokens}"
            )
        head = _n_fitting(sizes[:-2], min(self._head_share * room, room - sizes[-1]))
        room -= sum(sizes[:head])
        tail = 1 + _n_fitting(sizes[-2:head:-1], self._refill_share * room - sizes[-1])
        self.omitted = OmittedRange(head, steps - tail)
        return fixed + notice + sum(sizes[:head]) + sum(sizes[steps - tail :])

    def _notice(self, steps: int) -> JsonObject:
        return {"role": "user", "content": self._notice_text.replace("{steps}", str(steps))}


def _n_fitting(sizes: Sequence[int], room: float) -> int:
    """Return how many of the first sizes fit into `room`."""
    taken = 0
    for size in sizes:
        if size > room:
            break
        room -= size
        taken += 1
    return taken
