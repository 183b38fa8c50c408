"""The settings of the algorithm, under the names of the published recipes (NeMo-RL's `grpo` and `loss_fn` blocks).

Source  NVIDIA-NeMo/RL, `examples/configs/grpo_math_1B.yaml` and `nemo_rl/algorithms/{grpo,loss}`; a default is theirs
        unless the field says otherwise.
Errors  a value or a pair of values that is not allowed is a ValidationError with what would be right.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AsyncGrpoSettings(_Settings):
    """`grpo.async_grpo`."""

    enabled: bool = True
    """False (NeMo-RL's default): each step waits for its own rollouts, as with `max_trajectory_age_steps: 0`."""
    max_trajectory_age_steps: int = Field(default=1, ge=0)
    """How many versions older than the step's weights the oldest trained token may be; 0: on-policy."""
    max_generation_failures: int = Field(default=0, ge=0)
    """Groups in a row without any verdict that a run tolerates; one more ends it. Wrong rows and leaks do not count."""
    in_flight_weight_updates: bool = False
    """True: weights are sent while rollouts run; False: running rollouts end before, and none starts meanwhile."""
    recompute_kv_cache_after_weight_updates: bool = True
    """True: what running answers have in the KV cache is computed anew under new weights. False (the recipes' default)
    makes engine and trainer disagree about every token after an update."""


class GrpoSettings(_Settings):
    """`grpo`."""

    num_prompts_per_step: int = Field(default=32, ge=1)
    """Groups of one step: rows of the dataset, each rolled out several times."""
    num_generations_per_prompt: int = Field(default=16, ge=1)
    """Rollouts of one group."""
    max_num_steps: int = Field(default=1_000_000, ge=1)
    """Steps after which the run ends, those before it was resumed included."""
    max_num_epochs: int = Field(default=1, ge=1)
    """How often the run goes through the rows before it ends."""
    normalize_rewards: bool = True
    """Advantages are divided by the group's standard deviation."""
    use_leave_one_out_baseline: bool = True
    """The baseline of a member is the mean of the others; False: of all."""
    overlong_filtering: bool = False
    """Samples that a budget cut are not trained on."""
    advantage_clip_low: float | None = None
    """Smallest advantage, a smaller one is raised to it; None: no bound."""
    advantage_clip_high: float | None = None
    """Largest advantage, a larger one is lowered to it; None: no bound."""
    invalid_tool_call_strategy: Literal["mask", ""] = ""
    """`mask`: turns with an invalid call are not trained on; empty: they are, with `invalid_tool_call_advantage`."""
    invalid_tool_call_advantage: float | None = Field(default=None, le=0)
    """Advantage of the tokens of a turn with an invalid call; None: the rollout's own."""
    malformed_thinking_advantage: float | None = Field(default=None, le=0)
    """Advantage of the tokens of a turn with stray thinking tags; None: the rollout's own."""
    penalize_invalid_tool_call: bool = True
    """False: `invalid_tool_call_*` have no effect."""
    penalize_malformed_thinking: bool = True
    """False: `malformed_thinking_advantage` has no effect."""
    seq_logprob_error_threshold: float | None = Field(default=None, gt=0)
    """Sequences are not trained on whose mean factor between the trainer's and the engine's probabilities is larger;
    None: all are."""
    val_period: int = Field(default=0, ge=-1)
    """Steps between validations; 0 or -1: there is none between the first step and the last."""
    val_at_start: bool = False
    """Validate before the first step; a resumed run does not."""
    val_at_end: bool = False
    """Validate after the last step."""
    val_num_generations_per_prompt: int = Field(default=1, ge=1)
    """Rollouts of each validation row."""
    val_batch_size: int | None = Field(default=256, ge=1)
    """Validation rollouts in flight; None: all (recipes of `examples/nemo_gym`)."""
    max_val_samples: int | None = Field(default=None, ge=1)
    """Validation prompts; None: all."""
    seed: int = 42
    """The seed of the order of prompts and of all random choices."""
    async_grpo: AsyncGrpoSettings = AsyncGrpoSettings()
    """How far rollouts may run ahead of training."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        low, high = self.advantage_clip_low, self.advantage_clip_high
        if low is not None and high is not None and low > high:
            raise ValueError(f"advantage_clip_low ({low}) is above advantage_clip_high ({high})")
        if self.use_leave_one_out_baseline and self.num_generations_per_prompt < 2:
            raise ValueError("use_leave_one_out_baseline needs num_generations_per_prompt of 2 or more")
        return self

    @property
    def max_age(self) -> int:
        """How old trained tokens may be, in versions of the weights."""
        return self.async_grpo.max_trajectory_age_steps if self.async_grpo.enabled else 0


class GroupSettings(_Settings):
    """`paddock.groups`: what NeMo-RL has no name for."""

    repair: Literal["drop", "leave_one_out"] = "leave_one_out"
    """A group whose missing members could not be re-rolled: `drop` it, or train on those that are there, the baseline
    from them alone."""
    min_members: int = Field(default=2, ge=2)
    """Members with a reward that a group needs."""
    max_rerolls: int = Field(default=1, ge=0)
    """Further rollouts for members that failed (infra, verifier) in all their attempts."""
    max_age_retries: int = Field(default=1, ge=0)
    """How often a row is run again whose group was given up because no step could train on it any more
    (`max_trajectory_age_steps`). Steps wait for the last of these groups, so that long rollouts are trained on too; 0:
    they wait for each group, as where every group has a step of its own (NeMo-RL)."""
    leak_penalty: float | None = Field(default=None, allow_inf_nan=False)
    """Reward of a member with outcome `leak`; None: it is masked."""
    sample_mode: Literal["whole", "branch", "dynamic_history"] = "whole"
    """How a rollout becomes samples; see `paddock.tokens.export`."""
    step_credit: bool = False
    """Each step that a judge scored (an agent's `step_rewards`) is rewarded for itself, and compared with the same step
    of the group's other rollouts (`step_credit.py`); needs a sample per step, `sample_mode: dynamic_history`. False:
    the samples of a rollout share its reward."""

    @model_validator(mode="after")
    def _sample_per_step(self) -> Self:
        if self.step_credit and self.sample_mode != "dynamic_history":
            raise ValueError(
                f"step_credit needs a sample per step: set sample_mode to `dynamic_history`, not {self.sample_mode!r}"
            )
        return self


class LossSettings(_Settings):
    """`loss_fn`."""

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
