"""The settings of the loss, under the names of the published recipes (NeMo-RL's `loss_fn` block).

Source  NVIDIA-NeMo/RL, `examples/configs/grpo_math_1B.yaml` and `nemo_rl/algorithms/loss`; a default is theirs
        unless the field says otherwise.
Errors  a value or a pair of values that is not allowed is a ValidationError with what would be right.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class LossSettings(BaseModel):
    """`loss_fn`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_policy_kl_penalty: float = Field(default=0.0, ge=0)
    """Weight of the KL term (theirs: 0.01); 0: no reference policy is kept."""
    reference_policy_kl_type: Literal["k1", "k2", "k3"] = "k3"
    """How the KL divergence of a token is estimated (`kl.py` has the formulas)."""
    kl_input_clamp_value: float | None = Field(default=20.0, gt=0)
    """Bound, both ways, of the difference of log-probs that the estimate is made of; None: none."""
    kl_output_clamp_value: float | None = Field(default=10.0, gt=0)
    """Bound, both ways, of a token's KL term; None: none."""
    ratio_clip_min: float = Field(default=0.2, ge=0, lt=1)
    """The probability ratio is clipped from below at 1 minus this."""
    ratio_clip_max: float = Field(default=0.28, ge=0)
    """The probability ratio is clipped from above at 1 plus this (theirs: 0.2; the published recipes: 0.28)."""
    ratio_clip_c: float | None = Field(default=None, gt=1)
    """Dual clip for negative advantages (arXiv 1912.09729); None: off."""
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
    sequence_level_importance_ratios: bool = False
    """One probability ratio for each row, of the mean over its tokens (GSPO, arXiv 2507.18071)."""
    token_level_loss: bool = True
    """Mean over all trained tokens of the batch; False: over rows of the mean over their tokens."""
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

    @model_validator(mode="after")
    def _usable(self) -> Self:
        kind, high = self.truncated_importance_sampling_type, self.truncated_importance_sampling_ratio
        if (kind is None) != (high is None):
            raise ValueError(
                "truncated_importance_sampling_type and truncated_importance_sampling_ratio go together: set both "
                "(recipes: `tis` and 5.0) or neither"
            )
        if kind in ("icepop", "seq-mask-tis") and self.truncated_importance_sampling_ratio_min is None:
            raise ValueError(
                f"truncated_importance_sampling_type {kind!r} needs truncated_importance_sampling_ratio_min"
            )
        low = self.truncated_importance_sampling_ratio_min
        if low is not None and high is not None and low > high:
            raise ValueError(
                f"truncated_importance_sampling_ratio_min ({low}) is above truncated_importance_sampling_ratio ({high})"
            )
        if kind is not None and not self.use_importance_sampling_correction:
            raise ValueError("truncated_importance_sampling_type needs use_importance_sampling_correction: true")
        if self.ratio_against == "generation" and (self.force_on_policy_ratio or self.disable_ppo_ratio):
            raise ValueError(
                "force_on_policy_ratio and disable_ppo_ratio leave no ratio for ratio_against `generation`"
            )
        if kind is not None and self.ratio_against == "generation":
            raise ValueError("ratio_against `generation` leaves no sampling weights that could be truncated")
        self._check_levels()
        return self

    def _check_levels(self) -> None:
        if not self.sequence_level_importance_ratios:
            return
        if self.disable_ppo_ratio:
            raise ValueError("disable_ppo_ratio leaves no ratio for sequence_level_importance_ratios")
        if self.token_level_loss:
            raise ValueError("sequence_level_importance_ratios needs token_level_loss: false (GSPO)")
        if self.truncated_importance_sampling_type == "seq-mask-tis":
            raise ValueError(
                "seq-mask-tis corrects token by token: it can't go with sequence_level_importance_ratios; "
                "`tis` and `icepop` can"
            )
