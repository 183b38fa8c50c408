"""Claims about the losses of single papers: values computed by hand, and settings that make no sense."""

import math
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.training.core.test_loss import (
    ADVANTAGES,
    ARRAYS,
    PLAIN,
    RATIOS,
    ROWS,
    SURROGATE,
    TOKENS,
    UNBOUNDED,
    WEIGHTS,
    batches,
    loss,
    metrics,
    require_sum_of_parts,
    rows_of,
    trained_tokens,
    weighted,
)

from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_settings import LossSettings, RejectionSettings
from paddock.training.core.plain_arrays import Vector

NOW = [value for row in ROWS for value in row]
FLAT_ADVANTAGES = [value for row in ADVANTAGES for value in row]


def test_cispo_weighs_log_probs_by_the_clipped_ratio() -> None:
    clipped = [1.28, RATIOS[1], 1.0, 1.28]
    expected = fmean(-a * c * now for a, c, now in zip(FLAT_ADVANTAGES, clipped, NOW, strict=True))
    assert loss(use_cispo=True, **PLAIN) == pytest.approx(expected)


def test_cispo_without_a_bound_from_below() -> None:
    far = trained_tokens([[-5.0]], [[-1.0]], [[-1.0]], [[1.0]])
    assert loss(far, BatchTotals(1, 1), use_cispo=True, ratio_clip_min=1.0, **PLAIN) == pytest.approx(5 * math.exp(-4))


def test_sapo_has_a_soft_gate_that_is_steeper_for_negative_advantages() -> None:
    def gate(ratio: float, temperature: float) -> float:
        return 4 / temperature / (1 + math.exp(-temperature * (ratio - 1)))

    expected = [-a * gate(r, 1.0 if a > 0 else 1.05) for a, r in zip(FLAT_ADVANTAGES, RATIOS, strict=True)]
    assert loss(sapo={}, **PLAIN) == pytest.approx(fmean(expected))
    steep = {"temperature_positive": 2.0, "temperature_negative": 3.0}
    expected = [-a * gate(r, 2.0 if a > 0 else 3.0) for a, r in zip(FLAT_ADVANTAGES, RATIOS, strict=True)]
    assert loss(sapo=steep, **PLAIN) == pytest.approx(fmean(expected))
    assert "train/ratio_clipped" not in metrics(sapo={})


def test_dr_grpo_divides_each_row_by_the_same_length() -> None:
    rows = [math.fsum(SURROGATE[:3]), SURROGATE[3]]
    found = loss(token_level_loss=False, constant_length_tokens=10, **PLAIN)
    assert found == pytest.approx(math.fsum(rows) / 10 / 2)


def test_the_entropy_is_a_bonus() -> None:
    given_entropies = TOKENS._replace(entropies=Vector([1.0, 2.0, 3.0, 4.0]))
    assert loss(given_entropies, entropy_coef=0.1, **PLAIN) == pytest.approx(loss(**PLAIN) - 0.25)
    _, measured = policy_loss(given_entropies, BatchTotals(4, 2), LossSettings(entropy_coef=0.1), ARRAYS)
    assert measured.metrics()["train/entropy"] == pytest.approx(2.5)
    with pytest.raises(ValueError, match="entrop"):
        loss(entropy_coef=0.1)
    assert not LossSettings().needs_entropies


def test_rows_may_have_one_sampling_weight_beside_ratios_of_tokens() -> None:
    rows = [math.exp(0.6)] * 3 + [math.exp(2.1)]
    keys: dict[str, Any] = {"importance_sampling_level": "sequence"}
    assert loss(**keys, **UNBOUNDED) == pytest.approx(weighted(rows))
    assert loss(**keys) == pytest.approx(weighted([*rows[:3], 2.0]))
    assert metrics(**keys)["train/sampling_importance_ratio"] == pytest.approx(fmean([rows[0], 2.0]))
    keys |= {"truncated_importance_sampling_type": "icepop", "truncated_importance_sampling_ratio": 5.0}
    assert loss(**keys, truncated_importance_sampling_ratio_min=0.5) == pytest.approx(weighted([*rows[:3], 0.0]))


def test_gspo_may_have_sampling_weights_of_tokens() -> None:
    keys: dict[str, Any] = {"sequence_level_importance_ratios": True, "token_level_loss": False, **UNBOUNDED}
    ratios = [math.exp(0.4 / 3)] * 3 + [math.exp(0.8)]
    per_token = [-w * a * r for w, a, r in zip(WEIGHTS, FLAT_ADVANTAGES, ratios, strict=True)]
    found = loss(**keys, importance_sampling_level="token")
    assert found == pytest.approx((fmean(per_token[:3]) + per_token[3]) / 2)


def test_a_weight_that_overflows_is_bounded_as_any_other() -> None:
    far = trained_tokens([[-1.0]], [[-1.0]], [[-2000.0]], [[1.0]])
    assert loss(far, BatchTotals(1, 1)) == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("rejection", "kept"),
    [
        ({"statistic": "token_k1", "high": 1.2}, [1, 0, 1, 0]),
        ({"statistic": "token_k1", "high": 1.2, "low": 0.5}, [1, 1, 1, 0]),
        ({"statistic": "token_k2", "high": 0.1}, [1, 0, 1, 0]),
        ({"statistic": "token_k3", "high": 0.3}, [1, 1, 1, 0]),
        ({"statistic": "seq_sum_k1", "high": 1.5}, [0, 0, 0, 0]),
        ({"statistic": "seq_mean_k1", "high": 1.5}, [1, 1, 1, 0]),
        ({"statistic": "seq_mean_k1", "high": 1.5, "low": 0.0}, [1, 1, 1, 1]),
        ({"statistic": "seq_max_k2", "high": 0.1}, [0, 0, 0, 0]),
        ({"statistic": "seq_max_k3", "high": 0.3}, [1, 1, 1, 0]),
        ({"statistic": "token_k2", "high": 0.004, "negative_only": True}, [1, 1, 0, 0]),
    ],
)
def test_what_is_too_far_apart_is_left_out(rejection: dict[str, Any], kept: list[int]) -> None:
    """d is -0.1, 0.6, 0.1 and, in a row of its own, 2.1."""
    expected = fmean(on * value for on, value in zip(kept, SURROGATE, strict=True))
    assert loss(rejections=[rejection], **PLAIN) == pytest.approx(expected)
    assert metrics(rejections=[rejection], **PLAIN)["train/rejected_ratio"] == pytest.approx(1 - fmean(kept))


def test_rejections_add_up_and_take_what_is_no_number() -> None:
    both = [{"statistic": "token_k2", "high": 0.1}, {"statistic": "token_k2", "high": 0.0049, "negative_only": True}]
    assert loss(rejections=both, **PLAIN) == pytest.approx(SURROGATE[0] / 4)
    unknown = trained_tokens([[-1.0, -1.0]], [[-1.0, -1.0]], [[math.nan, -1.0]], [[1.0, 1.0]])
    assert loss(unknown, BatchTotals(2, 1), rejections=both[:1], **PLAIN) == pytest.approx(-0.5)


def test_the_plain_gradient_leaves_the_kl_term_as_it_is() -> None:
    keys: dict[str, Any] = {"reference_policy_kl_penalty": 0.5, **PLAIN}
    assert loss(reference_policy_kl_gradient="plain", **keys) == pytest.approx(loss(**keys))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"use_cispo": True, "sapo": {}}, "choose one"),
        ({"use_cispo": True, "disable_ppo_ratio": True}, "no ratio"),
        ({"use_cispo": True, "force_on_policy_ratio": True}, "no ratio"),
        ({"use_cispo": True, "ratio_clip_c": 3.0}, "ratio_clip_c"),
        (
            {"sapo": {}, "sequence_level_importance_ratios": True, "token_level_loss": False},
            "sequence_level_importance_ratios to false",
        ),
        ({"constant_length_tokens": 100}, "token_level_loss: false"),
        ({"use_on_policy_kl_approximation": True, "reference_policy_kl_gradient": "plain"}, "take one"),
        (
            {
                "truncated_importance_sampling_type": "seq-mask-tis",
                "truncated_importance_sampling_ratio": 1.1,
                "truncated_importance_sampling_ratio_min": 0.9,
                "importance_sampling_level": "sequence",
            },
            "token by token",
        ),
        ({"rejections": [{"statistic": "token_k2", "high": 1.0, "low": 0.5}]}, "bound of k1"),
        ({"rejections": [{"statistic": "token_k1", "high": 0.5}]}, "above high"),
        ({"rejections": [{"statistic": "seq_max_k1", "high": 0.5}]}, "seq_max_k2"),
    ],
)
def test_settings_that_make_no_sense_say_what_would_be_right(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LossSettings(**keys)


REJECTIONS = [
    RejectionSettings(statistic="seq_mean_k3", high=0.3),
    RejectionSettings(statistic="seq_max_k2", high=0.5, negative_only=True),
]


@st.composite
def algorithms(draw: st.DrawFn) -> LossSettings:
    bounded: dict[str, Any] = draw(st.sampled_from([{}, {"use_cispo": True}, {"sapo": {}}]))
    by_token = draw(st.booleans())
    return LossSettings(
        **bounded,
        token_level_loss=by_token,
        constant_length_tokens=None if by_token else draw(st.sampled_from([None, 7])),
        importance_sampling_level=draw(st.sampled_from([None, "token", "sequence"])),
        rejections=tuple(draw(st.sets(st.sampled_from(REJECTIONS)))),
        entropy_coef=draw(st.sampled_from([0.0, 0.1])),
        reference_policy_kl_penalty=0.1,
        reference_policy_kl_gradient=draw(st.sampled_from(["plain", "corrected"])),
    )


@given(batches(), algorithms(), st.data())
def test_the_parts_of_a_batch_add_up(tokens: TrainedTokens[Vector], keys: LossSettings, data: st.DataObject) -> None:
    tokens = tokens._replace(entropies=Vector(abs(value) for value in tokens.advantages.values))
    require_sum_of_parts(tokens, keys, data)


OF_ONE = TOKENS._replace(unit_tokens=Vector([4.0, 4.0]))
"""Both rows are of one rollout, and of one prompt."""


def test_rollouts_and_prompts_weigh_the_same_in_however_many_rows() -> None:
    totals = BatchTotals(4, 2, units=1)
    keys: dict[str, Any] = {"token_level_loss": False, **PLAIN}
    assert loss(OF_ONE, totals, mean_over="rollouts", **keys) == pytest.approx(fmean(SURROGATE))
    apart = TOKENS._replace(unit_tokens=Vector([3.0, 1.0]))
    assert loss(apart, BatchTotals(4, 2, units=2), mean_over="prompts", **keys) == pytest.approx(loss(**keys))
    constant = {"constant_length_tokens": 10, "mean_over": "rollouts"}
    assert loss(OF_ONE, totals, **constant, **keys) == pytest.approx(sum(SURROGATE) / 10)


def test_units_are_of_the_whole_batch_however_it_is_split() -> None:
    totals, keys = BatchTotals(4, 2, units=1), {"token_level_loss": False, "mean_over": "rollouts", **PLAIN}
    halves = [rows_of(OF_ONE, [nth])._replace(unit_tokens=Vector([4.0])) for nth in range(2)]
    assert sum(loss(half, totals, **keys) for half in halves) == pytest.approx(loss(OF_ONE, totals, **keys))


def test_the_likelihood_of_rows_with_a_positive_reward() -> None:
    """Of the first row, whose three tokens are a mean; the second adds nothing to it."""
    tokens, totals = TOKENS._replace(positive=Vector([1.0, 1.0, 1.0, 0.0])), BatchTotals(4, 2, positive_tokens=3)
    keys: dict[str, Any] = {"positive_example_nll_weight": 0.5, **PLAIN}
    expected = -fmean(NOW[:3])
    assert loss(tokens, totals, **keys) == pytest.approx(loss(**PLAIN) + 0.5 * expected)
    assert policy_loss(tokens, totals, LossSettings(**keys), ARRAYS)[1].metrics()["train/positive_nll"] == (
        pytest.approx(expected)
    )
    none = tokens._replace(positive=Vector([0.0] * 4))
    assert loss(none, BatchTotals(4, 2), **keys) == pytest.approx(loss(**PLAIN)), "no row has one: no term"


def test_what_terms_need_is_asked_for() -> None:
    with pytest.raises(ValueError, match="tokens of each"):
        loss(mean_over="prompts", token_level_loss=False)
    with pytest.raises(ValueError, match="which rows"):
        loss(positive_example_nll_weight=0.1)
    with pytest.raises(ValidationError, match="token_level_loss: false"):
        LossSettings(mean_over="prompts")
    assert LossSettings(positive_example_nll_weight=0.1).needs_every_row
