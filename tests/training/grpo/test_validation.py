"""Claims about what a validation says: verdicts alone, and of one version of the weights."""

import pytest

from paddock.training.core.testing import member, sample
from paddock.training.grpo.validation import require_weights, validation_result


def test_failures_are_counted_and_enter_no_mean() -> None:
    found = validation_result([[member(0, 1.0), member(1, None)], [member(0, 0.0), member(1, None, outcome="leak")]])
    assert (found.n_rollouts, found.n_verdicts) == (4, 2)
    assert (found.metrics["accuracy"], found.metrics["pass_k"]) == (0.5, 0.5)
    assert (found.metrics["outcome/infra"], found.metrics["outcome/leak"]) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("versions", "counts"), [(["7"], True), ([None], True), (["7", "default"], False), (["6"], False)]
)
def test_what_other_weights_sampled_says_nothing_of_these(versions: list[str | None], counts: bool) -> None:
    spans = [(f"turn-{nth}", 2 + nth, 3 + nth, version) for nth, version in enumerate(versions)]
    one = require_weights(member(0, 1.0, samples=[sample(spans)]), 7)
    assert (one.reward, one.outcome) == ((1.0, "completed") if counts else (None, "infra"))
    assert validation_result([[one]]).n_verdicts == counts
