"""Claims about the loss: values computed by hand, and those of NeMo-RL's formula, written out token by token."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_metrics import LossMetrics
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.plain_arrays import PlainArrays, Vector

ARRAYS = PlainArrays()
ROWS = [[-1.0, -2.0, -0.5], [-0.1]]
"""Log-probs now; what else is known of the tokens is in `BEFORE`, `ENGINE` and `ADVANTAGES`."""
BEFORE = [[-1.5, -1.9, -0.5], [-0.9]]
ENGINE = [[-1.4, -2.5, -0.6], [-3.0]]
ADVANTAGES = [[1.0, 1.0, -2.0], [-1.0]]
REFERENCE = [[-1.2, -1.0, -0.4], [-25.0]]
PLAIN: dict[str, Any] = {"use_importance_sampling_correction": False}
UNBOUNDED: dict[str, Any] = {"truncated_importance_sampling_type": None}
Rows = Sequence[Sequence[float]]


def flat(rows: Rows) -> Vector:
    return Vector(value for row in rows for value in row)


def trained_tokens(
    now: Rows, before: Rows | None, engine: Rows, advantages: Rows, reference: Rows | None = None
) -> TrainedTokens[Vector]:
    return TrainedTokens(
        log_probs=flat(now),
        engine_log_probs=flat(engine),
        advantages=flat(advantages),
        rows=flat([[float(nth)] * len(row) for nth, row in enumerate(now)]),
        n_rows=len(now),
        old_log_probs=None if before is None else flat(before),
        reference_log_probs=None if reference is None else flat(reference),
    )


TOKENS = trained_tokens(ROWS, BEFORE, ENGINE, ADVANTAGES, REFERENCE)
TOTALS = BatchTotals(tokens=4, rows=2)


def loss(tokens: TrainedTokens[Vector] = TOKENS, totals: BatchTotals = TOTALS, **keys: Any) -> float:
    found, _ = policy_loss(tokens, totals, LossSettings(**keys), ARRAYS)
    (value,) = found.values
    return value


def metrics(tokens: TrainedTokens[Vector] = TOKENS, **keys: Any) -> dict[str, float]:
    return policy_loss(tokens, TOTALS, LossSettings(**keys), ARRAYS)[1].metrics()


RATIOS = [math.exp(0.5), math.exp(-0.1), 1.0, math.exp(0.8)]
"""1.65, 0.90, 1, 2.23: the first is clipped to 1.28 for its positive advantage; the last is not, its advantage is
negative."""


def test_clipped_by_hand() -> None:
    assert loss(**PLAIN) == pytest.approx((-1.28 - RATIOS[1] + 2 * RATIOS[2] + RATIOS[3]) / 4)


def test_a_small_ratio_is_clipped_for_a_negative_advantage_alone() -> None:
    small = trained_tokens([[-3.0, -3.0]], [[-1.0, -1.0]], [[-1.0, -1.0]], [[1.0, -1.0]])
    assert loss(small, BatchTotals(2, 1), **PLAIN) == pytest.approx((-math.exp(-2) + 0.8) / 2)


def test_dual_clip_bounds_what_a_negative_advantage_costs() -> None:
    assert loss(ratio_clip_c=2.0, **PLAIN) == pytest.approx((-1.28 - RATIOS[1] + 2 * RATIOS[2] + 2.0) / 4)


def test_a_mean_over_rows() -> None:
    first = (-1.28 - RATIOS[1] + 2 * RATIOS[2]) / 3
    assert loss(token_level_loss=False, **PLAIN) == pytest.approx((first + RATIOS[3]) / 2)


def test_one_optimiser_step_per_batch_has_ratios_of_one() -> None:
    on_policy = TOKENS._replace(old_log_probs=None)
    expected = (-1 - 1 + 2 + 1) / 4
    assert loss(on_policy, **PLAIN) == pytest.approx(expected)
    assert loss(force_on_policy_ratio=True, **PLAIN) == pytest.approx(expected)


def test_reinforce() -> None:
    assert loss(disable_ppo_ratio=True, **PLAIN) == pytest.approx((1.0 + 2.0 + 2 * -0.5 + -0.1) / 4)


def test_gspo_has_one_ratio_per_row() -> None:
    """Means of the rows' log-ratios: (0.5 - 0.1 + 0) / 3 and 0.8; the first, 1.14, is within the clip."""
    first = math.exp(0.4 / 3)
    keys = {"sequence_level_importance_ratios": True, "token_level_loss": False, **PLAIN}
    assert loss(**keys) == pytest.approx((first * (-1 - 1 + 2) / 3 + math.exp(0.8)) / 2, abs=1e-12)


WEIGHTS = [math.exp(-0.1), math.exp(0.6), math.exp(0.1), math.exp(2.1)]
SURROGATE = [-1.28, -RATIOS[1], 2.0, RATIOS[3]]


def weighted(weights: Sequence[float]) -> float:
    return fmean(weight * value for weight, value in zip(weights, SURROGATE, strict=True))


def test_sampling_weights() -> None:
    assert loss(**UNBOUNDED) == pytest.approx(weighted(WEIGHTS))


def test_no_token_weighs_more_than_two_unless_it_is_said() -> None:
    assert loss() == pytest.approx(weighted([*WEIGHTS[:3], 2.0]))
    assert metrics()["train/is_oob_ratio"] == pytest.approx(1 / 4)
    apart = trained_tokens(ROWS, BEFORE, [[-1.4, -2.5, -0.6], [-90.0]], ADVANTAGES)
    assert abs(loss(apart)) < 2 < abs(loss(apart, **UNBOUNDED))


@pytest.mark.parametrize(
    "keys", [PLAIN, {"ratio_against": "generation"}, UNBOUNDED, {"truncated_importance_sampling_ratio": None}]
)
def test_there_is_no_bound_where_there_are_no_weights_or_none_is_asked_for(keys: dict[str, Any]) -> None:
    read = LossSettings(**keys)
    assert read.truncated_importance_sampling_type is None
    assert read.truncated_importance_sampling_ratio is None
    assert LossSettings.model_validate(read.model_dump(exclude_defaults=True)) == read


@pytest.mark.parametrize(
    ("keys", "weights", "outside"),
    [
        (("tis", 5.0, None), [*WEIGHTS[:3], 5.0], 1 / 4),
        (("tis", 1.5, 1.0), [1.0, 1.5, WEIGHTS[2], 1.5], 3 / 4),
        (("icepop", 5.0, 0.95), [0.0, *WEIGHTS[1:3], 0.0], 2 / 4),
        (("seq-mask-tis", 1.25, 1.2), [*WEIGHTS[:3], 0.0], 1 / 2),
    ],
)
def test_truncated_sampling_weights(
    keys: tuple[str, float, float | None], weights: list[float], outside: float
) -> None:
    """`seq-mask-tis`: the rows' geometric means are exp(0.2) = 1.22 and exp(2.1); the share outside is one of rows."""
    names = ("truncated_importance_sampling_" + name for name in ("type", "ratio", "ratio_min"))
    settings: dict[str, Any] = dict(zip(names, keys, strict=True))
    assert loss(**settings) == pytest.approx(weighted(weights))
    assert metrics(**settings)["train/is_oob_ratio"] == pytest.approx(outside)
    assert metrics(**settings)["train/sampling_importance_ratio"] == pytest.approx(fmean(weights))


def test_a_rows_weight_is_that_of_all_its_tokens() -> None:
    keys: dict[str, Any] = {"sequence_level_importance_ratios": True, "token_level_loss": False, **UNBOUNDED}
    rows = [math.exp(0.6), math.exp(2.1)]
    first = math.exp(0.4 / 3)
    assert loss(**keys) == pytest.approx((rows[0] * first * 0 + rows[1] * math.exp(0.8)) / 2)
    assert metrics(**keys)["train/sampling_importance_ratio"] == pytest.approx(fmean(rows))


def test_the_ratio_may_be_taken_of_the_engine_and_needs_no_weight_then() -> None:
    ratios = [math.exp(0.4), math.exp(0.5), math.exp(0.1), math.exp(2.9)]
    assert loss(ratio_against="generation") == pytest.approx((-1.28 - 1.28 + 2 * ratios[2] + ratios[3]) / 4)


D = [-0.2, 1.0, 0.1, -24.9]
"""Reference - now; the last is beyond the bound of 20."""
KL = {
    "k1": [0.2, -1.0, -0.1, 10.0],
    "k2": [0.02, 0.5, 0.005, 10.0],
    "k3": [math.exp(-0.2) - 0.8, math.e - 2, math.exp(0.1) - 1.1, 10.0],
}


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_kl(kind: str) -> None:
    keys = {"reference_policy_kl_penalty": 0.5, "reference_policy_kl_type": kind, **PLAIN}
    assert loss(**keys) - loss(**PLAIN) == pytest.approx(0.5 * fmean(KL[kind]))
    assert metrics(**keys)["train/kl_penalty"] == pytest.approx(fmean(KL[kind]))


def test_kl_without_bounds_and_with_those_of_the_input_alone() -> None:
    keys: dict[str, Any] = {"reference_policy_kl_penalty": 1.0, "kl_output_clamp_value": None, **PLAIN}
    assert loss(**keys) - loss(**PLAIN) == pytest.approx(fmean([*KL["k3"][:3], math.exp(-20) + 19]))
    keys["kl_input_clamp_value"] = None
    assert loss(**keys) - loss(**PLAIN) == pytest.approx(fmean([*KL["k3"][:3], math.exp(-24.9) + 23.9]))


def test_kl_weighted_by_who_sampled() -> None:
    weights = [math.exp(0.4), math.exp(0.5), math.exp(0.1), math.exp(2.9)]
    expected = [min(weight * value, 10.0) for weight, value in zip(weights, KL["k3"], strict=True)]
    keys = {"reference_policy_kl_penalty": 1.0, "use_on_policy_kl_approximation": True, **PLAIN}
    assert loss(**keys) - loss(**PLAIN) == pytest.approx(fmean(expected))


def test_kl_needs_a_reference() -> None:
    with pytest.raises(ValueError, match="reference"):
        loss(TOKENS._replace(reference_log_probs=None), reference_policy_kl_penalty=0.1)


def test_metrics() -> None:
    found = metrics(**UNBOUNDED)
    errors = [0.1, 0.6, 0.1, 2.1]
    signed = [-0.1, 0.6, 0.1, 2.1]
    now = [value for row in ROWS for value in row]
    behind = [0.4, 0.5, 0.1, 2.9]
    assert found == pytest.approx(
        {
            "train/loss": loss(**UNBOUNDED),
            "train/probs_ratio": fmean(RATIOS),
            "train/probs_ratio_clamped": fmean([1.28, *RATIOS[1:3], 1.28]),
            "train/probs_ratio_min": RATIOS[1],
            "train/probs_ratio_max": RATIOS[3],
            "train/probs_ratio_clamped_min": RATIOS[1],
            "train/probs_ratio_clamped_max": 1.28,
            "train/ratio_clipped": 0.5,
            "train/token_mult_prob_error": fmean(map(math.exp, errors)),
            "train/gen_kl_error": fmean(math.exp(one) - 1 - one for one in signed),
            "train/policy_kl_error": fmean(math.exp(-one) - 1 + one for one in signed),
            "train/sampling_importance_ratio": fmean(WEIGHTS),
            "train/is_oob_ratio": 0.0,
            "train/approx_entropy": -fmean(math.exp(d) * p for d, p in zip(behind, now, strict=True)),
            "train/num_valid_samples": 2.0,
        }
    )


@pytest.mark.parametrize(
    "keys",
    [
        {"truncated_importance_sampling_type": "tis"},
        {"truncated_importance_sampling_ratio": 5.0},
        {"truncated_importance_sampling_type": "icepop", "truncated_importance_sampling_ratio": 5.0},
        {"truncated_importance_sampling_type": "tis", "truncated_importance_sampling_ratio": 5.0, **PLAIN},
        {
            "truncated_importance_sampling_type": "tis",
            "truncated_importance_sampling_ratio": 1.0,
            "truncated_importance_sampling_ratio_min": 2.0,
        },
        {"sequence_level_importance_ratios": True},
        {"sequence_level_importance_ratios": True, "token_level_loss": False, "disable_ppo_ratio": True},
        {"ratio_against": "generation", "force_on_policy_ratio": True},
        {"ratio_against": "generation", "disable_ppo_ratio": True},
        {"ratio_clip_c": 1.0},
    ],
)
def test_settings_that_cannot_go_together(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LossSettings(**keys)


@st.composite
def batches(draw: st.DrawFn) -> TrainedTokens[Vector]:
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    value = st.floats(-4, 0)

    def rows(of: st.SearchStrategy[float]) -> list[list[float]]:
        return [[draw(of) for _ in range(length)] for length in lengths]

    before = rows(value) if draw(st.booleans()) else None
    return trained_tokens(rows(value), before, rows(value), rows(st.floats(-3, 3)), rows(value))


@st.composite
def settings(draw: st.DrawFn) -> LossSettings:
    kind = draw(st.sampled_from([None, "tis", "icepop", "seq-mask-tis"]))
    by_row = kind != "seq-mask-tis" and draw(st.booleans())
    return LossSettings(
        use_importance_sampling_correction=True if kind else draw(st.booleans()),
        truncated_importance_sampling_type=kind,
        truncated_importance_sampling_ratio=1.5 if kind else None,
        truncated_importance_sampling_ratio_min=0.5 if kind else None,
        sequence_level_importance_ratios=by_row,
        token_level_loss=not by_row and draw(st.booleans()),
        ratio_clip_c=draw(st.sampled_from([None, 1.5])),
        force_on_policy_ratio=draw(st.booleans()),
        reference_policy_kl_penalty=draw(st.sampled_from([0.0, 0.3])),
        reference_policy_kl_type=draw(st.sampled_from(["k1", "k2", "k3"])),
        use_on_policy_kl_approximation=draw(st.booleans()),
    )


def theirs(tokens: TrainedTokens[Vector], keys: LossSettings) -> float:
    """NeMo-RL's, row by row and token by token."""
    rows = []
    for row in range(tokens.n_rows):
        own = [at for at, of in enumerate(tokens.rows.values) if of == row]
        now = [tokens.log_probs.values[at] for at in own]
        before = (
            now
            if tokens.old_log_probs is None or keys.force_on_policy_ratio
            else [tokens.old_log_probs.values[at] for at in own]
        )
        engine = [tokens.engine_log_probs.values[at] for at in own]
        logs = [b - e for b, e in zip(before, engine, strict=True)]
        ratio = [math.exp(n - b) for n, b in zip(now, before, strict=True)]
        weight = [math.exp(one) for one in logs]
        if keys.sequence_level_importance_ratios:
            ratio = [math.exp(fmean(n - b for n, b in zip(now, before, strict=True)))] * len(own)
            weight = [math.exp(math.fsum(logs))] * len(own)
        values = []
        for nth, at in enumerate(own):
            values.append(_theirs_token(ratio[nth], weight[nth], fmean(logs), tokens.advantages.values[at], keys))
            if keys.reference_policy_kl_penalty:
                assert tokens.reference_log_probs is not None
                values[-1] += _theirs_kl(now[nth], engine[nth], tokens.reference_log_probs.values[at], keys)
        rows.append(values)
    if keys.token_level_loss:
        return math.fsum(value for row_values in rows for value in row_values) / sum(map(len, rows))
    return fmean(fmean(row_values) for row_values in rows)


def _theirs_token(ratio: float, weight: float, row_log: float, advantage: float, keys: LossSettings) -> float:
    found = max(-advantage * ratio, -advantage * min(max(ratio, 0.8), 1.28))
    if keys.ratio_clip_c is not None and advantage < 0:
        found = min(found, -advantage * keys.ratio_clip_c)
    if keys.truncated_importance_sampling_type == "tis":
        weight = min(max(weight, 0.5), 1.5)
    elif keys.truncated_importance_sampling_type == "icepop":
        weight *= 0.5 <= weight <= 1.5
    elif keys.truncated_importance_sampling_type == "seq-mask-tis":
        weight *= 0.5 <= math.exp(row_log) <= 1.5
    return found * weight if keys.use_importance_sampling_correction else found


def _theirs_kl(now: float, engine: float, reference: float, keys: LossSettings) -> float:
    d = reference - now
    value = {"k1": -d, "k2": d * d / 2, "k3": math.exp(d) - 1 - d}[keys.reference_policy_kl_type]
    weight = math.exp(now - engine) if keys.use_on_policy_kl_approximation else 1.0
    return keys.reference_policy_kl_penalty * min(max(weight * value, -10.0), 10.0)


@given(batches(), settings())
def test_as_nemo_rl(tokens: TrainedTokens[Vector], keys: LossSettings) -> None:
    totals = BatchTotals(len(tokens.rows.values), tokens.n_rows)
    (found,) = policy_loss(tokens, totals, keys, ARRAYS)[0].values
    assert found == pytest.approx(theirs(tokens, keys), rel=1e-9, abs=1e-9)


@given(batches(), settings(), st.data())
def test_however_a_batch_is_split_the_parts_add_up(
    tokens: TrainedTokens[Vector], keys: LossSettings, data: st.DataObject
) -> None:
    require_sum_of_parts(tokens, keys, data)


def require_sum_of_parts(tokens: TrainedTokens[Vector], keys: LossSettings, data: st.DataObject) -> None:
    """Split the rows at random; the losses and the metrics of the parts have to add up to those of the whole."""
    totals = BatchTotals(len(tokens.rows.values), tokens.n_rows)
    part_of = [data.draw(st.integers(0, 2)) for _ in range(tokens.n_rows)]
    found, measured = 0.0, LossMetrics()
    for part in range(4):
        own = [row for row in range(tokens.n_rows) if part_of[row] == part]
        value, more = policy_loss(rows_of(tokens, own), totals, keys, ARRAYS)
        found += value.values[0]
        measured += more
    whole, expected = policy_loss(tokens, totals, keys, ARRAYS)
    assert found == pytest.approx(whole.values[0], rel=1e-9, abs=1e-9)
    assert measured.metrics() == pytest.approx(expected.metrics(), rel=1e-9, abs=1e-9)


def rows_of(tokens: TrainedTokens[Vector], rows: list[int]) -> TrainedTokens[Vector]:
    at = [nth for nth, row in enumerate(tokens.rows.values) if row in rows]

    def own(x: Vector | None) -> Vector | None:
        return None if x is None else Vector(x.values[nth] for nth in at)

    def there(x: Vector) -> Vector:
        return Vector(x.values[nth] for nth in at)

    return TrainedTokens(
        there(tokens.log_probs),
        there(tokens.engine_log_probs),
        there(tokens.advantages),
        Vector(float(rows.index(int(row))) for row in there(tokens.rows).values),
        len(rows),
        own(tokens.old_log_probs),
        own(tokens.reference_log_probs),
        own(tokens.entropies),
    )
