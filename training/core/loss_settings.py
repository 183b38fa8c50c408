"""The settings of the loss, under the names of the published recipes (NeMo-RL's `loss_fn` block).

Source  NVIDIA-NeMo/RL, `examples/configs/grpo_math_1B.yaml` and `nemo_rl/algorithms/loss`; a default is theirs
        unless the field says otherwise.
Papers  `docs/algorithms.md` has the keys of each published algorithm.
Errors  a value or a pair of values that is not allowed is a ValidationError with what would be right.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

KlEstimate = Literal["k1", "k2", "k3"]
"""Estimates of the KL divergence of a token; `kl.py` has the formulas."""

MeanOver = Literal["rows", "rollouts", "prompts"]
"""What weighs the same in the loss."""


class SapoSettings(BaseModel):
    """`loss_fn.sapo`: the soft gate of SAPO (arXiv 2511.20347)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature_positive: float = Field(default=1.0, gt=0)
    """How steep the gate is where the advantage is above 0."""
    temperature_negative: float = Field(default=1.05, gt=0)
    """The same where it is 0 or below: steeper, for such tokens unsettle a policy more."""


class ClipCovSettings(BaseModel):
    """`loss_fn.clip_cov`: Clip-Cov (arXiv 2505.22617), under verl's names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    clip_cov_ratio: float = Field(default=2e-4, gt=0, le=1)
    """The share of all tokens that is left without a gradient, at least one; chosen at random."""
    clip_cov_lb: float = 1.0
    """Tokens are chosen whose covariance of advantage and log-prob is above this."""
    clip_cov_ub: float = 5.0
    """And below this."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.clip_cov_lb >= self.clip_cov_ub:
            raise ValueError(f"clip_cov_lb ({self.clip_cov_lb}) has to be below clip_cov_ub ({self.clip_cov_ub})")
        return self


class KlCovSettings(BaseModel):
    """`loss_fn.kl_cov`: KL-Cov (arXiv 2505.22617), under verl's names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kl_cov_ratio: float = Field(default=2e-4, gt=0, le=1)
    """The share of all tokens that has the KL term, at least one: those with the largest covariance of advantage and
    log-prob."""
    ppo_kl_coef: float = Field(default=1.0, gt=0)
    """The weight of that term, the absolute difference of the log-probs now and before the step (verl: 0.1)."""


class RejectionSettings(BaseModel):
    """One of `loss_fn.rejections`: tokens or rows that are left out, because trainer and engine are too far apart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    statistic: Literal[
        "token_k1", "token_k2", "token_k3",
        "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
        "seq_mean_k1", "seq_mean_k2", "seq_mean_k3",
        "seq_max_k2", "seq_max_k3",
    ]  # fmt: skip
    """What is bounded: an estimate of the KL divergence of the engine from the trainer, of each token, or the sum, mean
    or largest over a row; verl's names (`rollout_rs`)."""
    high: float = Field(gt=0)
    """The largest value that stays. Of k1 the bound of its exponential, a factor between probabilities: that of the
    engine over the trainer's."""
    low: float | None = Field(default=None, ge=0)
    """The smallest value that stays, of k1 alone, as a factor; None: 1 / `high`; 0: no bound."""
    negative_only: bool = False
    """Tokens with a negative advantage alone are left out (DeepSeek-V3.2, arXiv 2512.02556: off-policy sequence
    masking)."""

    @property
    def level(self) -> str:
        """`token`, `seq_sum`, `seq_mean` or `seq_max`."""
        return self.statistic.rsplit("_", 1)[0]

    @property
    def estimate(self) -> KlEstimate:
        estimates: dict[str, KlEstimate] = {"k1": "k1", "k2": "k2", "k3": "k3"}
        return estimates[self.statistic[-2:]]

    @property
    def bounds(self) -> tuple[float | None, float]:
        """The smallest and the largest value of the estimate itself; None: there is no smallest."""
        if self.estimate != "k1":
            return None, self.high
        low = 1 / self.high if self.low is None else self.low
        return math.log(low) if low > 0 else None, math.log(self.high)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low is not None and self.estimate != "k1":
            raise ValueError(f"low is a bound of k1: {self.statistic} has `high` alone")
        low, high = self.bounds
        if low is not None and low > high:
            raise ValueError(f"low is above high ({self.high}): of k1 they are factors, such as 0.5 and 2.0")
        return self


class LossSettings(BaseModel):
    """`loss_fn`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_policy_kl_penalty: float = Field(default=0.0, ge=0)
    """Weight of the KL term (theirs: 0.01); 0: no reference policy is kept."""
    reference_policy_kl_type: KlEstimate = "k3"
    """How the KL divergence of a token is estimated (`kl.py` has the formulas)."""
    reference_policy_kl_gradient: Literal["corrected", "plain"] = "corrected"
    """`corrected`: with the gradient through the tokens' probability, as in NeMo-RL; `plain`: of the estimate alone, as
    in the GRPO paper, TRL and verl (`low_var_kl`)."""
    use_kl_in_reward: bool = False
    """True: the KL estimate is taken off each token's reward, before advantages, and the loss has no KL term; for
    `grpo.adv_estimator.name` `reinforce_plus_plus` and for a critic (`value.enabled`)."""
    kl_input_clamp_value: float | None = Field(default=20.0, gt=0)
    """Bound, both ways, of the difference of log-probs that the estimate is made of; None: none."""
    kl_output_clamp_value: float | None = Field(default=10.0, gt=0)
    """Bound, both ways, of a token's KL term; None: none."""
    ratio_clip_min: float = Field(default=0.2, ge=0, le=1)
    """The probability ratio is clipped from below at 1 minus this; 1: it is not."""
    ratio_clip_max: float = Field(default=0.28, ge=0)
    """The probability ratio is clipped from above at 1 plus this (theirs: 0.2; the published recipes: 0.28)."""
    ratio_clip_c: float | None = Field(default=None, gt=1)
    """Dual clip for negative advantages (arXiv 1912.09729); None: off."""
    use_cispo: bool = False
    """CISPO (arXiv 2506.13585): the clipped ratio is a weight of the log-prob, so that clipped tokens have a gradient
    too; published with `ratio_clip_min: 1`, no bound from below."""
    sapo: SapoSettings | None = None
    """SAPO (arXiv 2511.20347): a soft gate in place of the clip; None: the ratio is clipped."""
    clip_cov: ClipCovSettings | None = None
    """Clip-Cov (arXiv 2505.22617): a few tokens with a large covariance of advantage and log-prob, which lower the
    entropy most, have no gradient; {}: as published; None: all have theirs."""
    kl_cov: KlCovSettings | None = None
    """KL-Cov (arXiv 2505.22617): the tokens with the largest covariance have a KL term in place of any clip; {}: as
    published; None: the ratio is clipped."""
    use_on_policy_kl_approximation: bool = False
    """The KL term is corrected for what the engine sampled otherwise than the trainer would have."""
    use_importance_sampling_correction: bool = True
    """Weigh tokens by how likely trainer and engine hold them; an asynchronous run needs it (theirs: false)."""
    truncated_importance_sampling_ratio: float | None = Field(default=2.0, gt=0)
    """Largest sampling weight (theirs: null, none): without one a single token that engine and trainer disagree about
    may outweigh a batch. Null in this key or the type: no bound. Where no sampling weights are used
    (`use_importance_sampling_correction: false`, `ratio_against: generation`), the default is null."""
    truncated_importance_sampling_ratio_min: float | None = Field(default=None, ge=0)
    """Smallest sampling weight; None: 0, which the type `tis` alone takes."""
    truncated_importance_sampling_type: Literal["tis", "icepop", "seq-mask-tis"] | None = "tis"
    """The effect of a bound, see `importance` (theirs: null)."""
    importance_sampling_level: Literal["token", "sequence"] | None = None
    """Whether each token has its own sampling weight or its row's, the product over its tokens; None: as the ratio
    (`sequence_level_importance_ratios`), as in NeMo-RL."""
    rejections: tuple[RejectionSettings, ...] = ()
    """Bounds beyond which tokens or rows are not trained on: they count in no numerator, and in each divisor. They need
    no sampling weights."""
    sequence_level_importance_ratios: bool = False
    """One probability ratio for each row, of the mean over its tokens (GSPO, arXiv 2507.18071)."""
    token_level_loss: bool = True
    """Mean over all trained tokens of the batch; False: over rows of the mean over their tokens."""
    mean_over: MeanOver = "rows"
    """What weighs the same with `token_level_loss: false`: each row, each rollout in however many rows it was split
    (compacted histories), or each prompt with all its rollouts (SkyRL's `prompt_mean`). Of an optimiser step: where a
    step of training is several, one may have a part of a prompt."""
    constant_length_tokens: int | None = Field(default=None, ge=1)
    """Dr. GRPO (arXiv 2503.20783): the sum over a row (a rollout, a prompt: `mean_over`) is divided by this many
    tokens, the longest response, and not by how many it has; needs `token_level_loss: false`. None: by how many it
    has."""
    positive_example_nll_weight: float = Field(default=0.0, ge=0)
    """VAPO (arXiv 2504.05118): weight of the negative log-likelihood of rows with a reward above 0, as training sees
    it: the mean over their tokens (the paper: 0.1); 0: there is no such term."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """Weight of the policy's entropy, in nats per token, that is taken off the loss; 0: it is not computed."""
    force_on_policy_ratio: bool = False
    """The clipped ratio is 1 (value only); needs one optimiser step per batch."""
    ratio_against: Literal["previous", "generation"] = "previous"
    """Whose log-probs the clipped ratio is taken of: the trainer's before the step (theirs; the sampling correction is
    a weight beside it), or the engine's, so that the clip acts on old tokens and the ratio is the correction itself."""
    disable_ppo_ratio: bool = False
    """REINFORCE: no ratio, no clipping."""

    @model_validator(mode="before")
    @classmethod
    def _bound_where_there_are_weights(cls, data: Any) -> Any:
        """Type and ratio have their defaults together, where sampling weights are used, or not at all."""
        pair = ("truncated_importance_sampling_type", "truncated_importance_sampling_ratio")
        if not isinstance(data, dict) or all(key in data for key in pair):
            return data
        weighs = data.get("use_importance_sampling_correction", True) and data.get("ratio_against") != "generation"
        if weighs and not any(key in data for key in pair):
            return data
        return {**dict.fromkeys(pair), **data}

    @property
    def clips(self) -> bool:
        """Whether there is a ratio that is clipped."""
        unbounded = self.sapo is not None or self.kl_cov is not None
        return not self.disable_ppo_ratio and not self.force_on_policy_ratio and not unbounded

    @property
    def chooses_tokens(self) -> bool:
        """Whether tokens are chosen by their covariance, before each optimiser step."""
        return self.clip_cov is not None or self.kl_cov is not None

    @property
    def weighs_rows(self) -> bool:
        """Whether the tokens of a row have one sampling weight."""
        level = self.importance_sampling_level
        return self.sequence_level_importance_ratios if level is None else level == "sequence"

    @property
    def has_kl_term(self) -> bool:
        """Whether the loss has a KL term."""
        return self.reference_policy_kl_penalty > 0 and not self.use_kl_in_reward

    @property
    def needs_every_row(self) -> bool:
        """Whether a row whose advantages are all 0 has a part in the gradient: through a term beside the surrogate."""
        others = self.needs_entropies or self.chooses_tokens or self.positive_example_nll_weight > 0
        return self.has_kl_term or others

    @property
    def needs_entropies(self) -> bool:
        """Whether the loss needs the policy's entropy at each trained token."""
        return self.entropy_coef > 0

    @model_validator(mode="after")
    def _usable(self) -> Self:
        for problem in (*self._weights(), *self._ratios(), *self._means(), *self._terms()):
            raise ValueError(problem)
        return self

    def _weights(self) -> Iterator[str]:
        kind, high = self.truncated_importance_sampling_type, self.truncated_importance_sampling_ratio
        low = self.truncated_importance_sampling_ratio_min
        if (kind is None) != (high is None):
            yield (
                "truncated_importance_sampling_type and truncated_importance_sampling_ratio go together: set both "
                "(recipes: `tis` and 5.0) or neither"
            )
        if kind in ("icepop", "seq-mask-tis") and low is None:
            yield f"truncated_importance_sampling_type {kind!r} needs truncated_importance_sampling_ratio_min"
        if low is not None and high is not None and low > high:
            yield (
                f"truncated_importance_sampling_ratio_min ({low}) is above truncated_importance_sampling_ratio ({high})"
            )
        if kind is not None and not self.use_importance_sampling_correction:
            yield "truncated_importance_sampling_type needs use_importance_sampling_correction: true"
        if kind is not None and self.ratio_against == "generation":
            yield "ratio_against `generation` leaves no sampling weights that could be truncated"
        if kind == "seq-mask-tis" and self.weighs_rows:
            yield (
                "seq-mask-tis corrects token by token: it can't go with weights of rows (importance_sampling_level, "
                "sequence_level_importance_ratios); `tis` and `icepop` can"
            )

    def _ratios(self) -> Iterator[str]:
        has_none = self.force_on_policy_ratio or self.disable_ppo_ratio
        if self.ratio_against == "generation" and has_none:
            yield "force_on_policy_ratio and disable_ppo_ratio leave no ratio for ratio_against `generation`"
        if self.sequence_level_importance_ratios and self.disable_ppo_ratio:
            yield "disable_ppo_ratio leaves no ratio for sequence_level_importance_ratios"
        blocks = ("sapo", "clip_cov", "kl_cov")
        names = {"use_cispo": self.use_cispo, **{name: getattr(self, name) is not None for name in blocks}}
        chosen = [name for name, on in names.items() if on]
        if len(chosen) > 1:
            yield f"{' and '.join(chosen)} are two ways to bound the ratio: choose one"
        if chosen and has_none:
            yield f"force_on_policy_ratio and disable_ppo_ratio leave no ratio for {chosen[0]}"
        if chosen and self.sequence_level_importance_ratios:
            yield f"{chosen[0]} has a ratio for each token: set sequence_level_importance_ratios to false"
        if chosen and self.ratio_clip_c is not None:
            yield f"{chosen[0]} has no second clip: set ratio_clip_c to null"
        if self.chooses_tokens and self.ratio_against == "generation":
            yield f"{chosen[0]} chooses by the ratio to the weights before the step: set ratio_against to `previous`"

    def _means(self) -> Iterator[str]:
        if self.sequence_level_importance_ratios and self.token_level_loss:
            yield "sequence_level_importance_ratios needs token_level_loss: false (GSPO)"
        if self.constant_length_tokens is not None and self.token_level_loss:
            yield "constant_length_tokens needs token_level_loss: false (Dr. GRPO)"
        if self.mean_over != "rows" and self.token_level_loss:
            yield f"mean_over `{self.mean_over}` needs token_level_loss: false"

    def _terms(self) -> Iterator[str]:
        if self.use_kl_in_reward and not self.reference_policy_kl_penalty:
            yield "use_kl_in_reward takes nothing off a reward: set reference_policy_kl_penalty above 0 (recipes: 0.01)"
        if self.use_kl_in_reward and self.use_on_policy_kl_approximation:
            yield "use_on_policy_kl_approximation weighs the KL term of the loss, which use_kl_in_reward leaves out"
        if self.use_on_policy_kl_approximation and self.reference_policy_kl_gradient == "plain":
            yield "use_on_policy_kl_approximation weighs the KL term, and so corrects its gradient: take one of the two"
