"""The settings of the algorithm, under the names of the published recipes (NeMo-RL's `grpo` block).

Source  NVIDIA-NeMo/RL, `examples/configs/grpo_math_1B.yaml` and `nemo_rl/algorithms/grpo`; a default is theirs
        unless the field says otherwise.
Errors  a value or a pair of values that is not allowed is a ValidationError with what would be right.
"""

import math
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

AgePolicyName = Literal["target_step", "accept_late", "cancel"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AsyncGrpoSettings(_Settings):
    """`grpo.async_grpo`."""

    enabled: bool = True
    """False (NeMo-RL's default): each step waits for its own rollouts, as with `max_trajectory_age_steps: 0`."""
    max_trajectory_age_steps: int = Field(default=1, ge=0)
    """How many versions older than the step's weights the oldest trained token may be; 0: on-policy."""
    max_generation_failures: int = Field(default=0, ge=0)
    """Groups in a row without any verdict that a run tolerates; one more ends it. Wrong rows, leaks and members
    beyond `paddock.groups.member_timeout_s` do not count."""
    in_flight_weight_updates: bool = False
    """True: weights are sent while rollouts run; False: running rollouts end before, and none starts meanwhile."""
    recompute_kv_cache_after_weight_updates: bool = True
    """True: what running answers have in the KV cache is computed anew under new weights. False (the recipes' default)
    makes engine and trainer disagree about every token after an update."""


class OverlongPenalty(NamedTuple):
    """DAPO's soft overlong punishment, complete."""

    buffer: int
    penalty: float
    longest: int


class RewardShapingSettings(_Settings):
    """`grpo.reward_shaping`: what is taken off a reward before advantages. `shaped_rewards.py` has the formulas."""

    enabled: bool = False
    """Whether the reward that training sees is shaped; what is stored, and `train/total_reward`, are not."""
    overlong_buffer_length: int | None = Field(default=None, ge=1)
    """Tokens before `max_response_length` over which the penalty grows; None, or no penalty or no length: there is
    none."""
    overlong_buffer_penalty: float | None = Field(default=None, ge=0)
    """The penalty of a rollout of `max_response_length` tokens and more."""
    max_response_length: int | None = Field(default=None, ge=1)
    """Sampled tokens of a rollout at which the whole penalty is due."""
    stop_properly_penalty_coef: float | None = Field(default=None, ge=0, le=1)
    """The reward of a truncated rollout, where it is above 0, is multiplied by this; None: it is not. The overlong
    penalty is left out then, as in NeMo-RL."""
    turn_penalty: float = Field(default=0.0, ge=0)
    """Taken off for each turn beyond `free_turns`."""
    free_turns: int = Field(default=0, ge=0)
    """Turns without a penalty."""
    token_penalty_per_1k: float = Field(default=0.0, ge=0)
    """Taken off for each 1,000 sampled tokens beyond `free_tokens`, in proportion."""
    free_tokens: int = Field(default=0, ge=0)
    """Sampled tokens without a penalty."""

    @property
    def overlong(self) -> OverlongPenalty | None:
        """None: there is none, or `stop_properly_penalty_coef` stands in its place."""
        buffer, penalty, longest = self.overlong_buffer_length, self.overlong_buffer_penalty, self.max_response_length
        if self.stop_properly_penalty_coef is not None or buffer is None or penalty is None or longest is None:
            return None
        return OverlongPenalty(buffer, penalty, longest)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = (self.overlong_buffer_length, self.overlong_buffer_penalty, self.max_response_length)
        has_other = self.stop_properly_penalty_coef is not None or self.turn_penalty or self.token_penalty_per_1k
        if self.enabled and None in given and (any(value is not None for value in given) or not has_other):
            raise ValueError(
                "the overlong penalty needs overlong_buffer_length, overlong_buffer_penalty and max_response_length; "
                "without it, set stop_properly_penalty_coef, turn_penalty or token_penalty_per_1k, or enabled to false"
            )
        if self.enabled and self.overlong is not None and self.overlong.buffer > self.overlong.longest:
            raise ValueError(
                f"overlong_buffer_length ({self.overlong.buffer}) is above max_response_length "
                f"({self.overlong.longest})"
            )
        return self


class RewardScalingSettings(_Settings):
    """`grpo.reward_scaling`: rewards mapped linearly from one range onto another, before they are shaped."""

    enabled: bool = False
    """Whether the rewards that training sees are scaled."""
    source_min: float = 0.0
    """Smallest reward of the environment; a smaller one is raised to it: -1, where a forgery is to cost what it does in
    `swe` (`forgery_reward`)."""
    source_max: float = 1.0
    """Largest reward of the environment; a larger one is lowered to it."""
    target_min: float = 0.0
    """What `source_min` becomes."""
    target_max: float = 1.0
    """What `source_max` becomes."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        ranges = (("source", self.source_min, self.source_max), ("target", self.target_min, self.target_max))
        for name, low, high in ranges:
            if self.enabled and low >= high:
                raise ValueError(f"{name}_min ({low}) has to be below {name}_max ({high})")
        return self


class AdvantageSettings(_Settings):
    """`grpo.adv_estimator`: how rewards become advantages. `advantages.py` has the formulas."""

    name: Literal["grpo", "gdpo", "reinforce_plus_plus", "maxrl", "grpo_passk", "opd"] = "grpo"
    """`grpo`: compared with the group; `gdpo` (arXiv 2601.05242): each part of a verdict's reward by itself, their sum
    normalised over the step; `reinforce_plus_plus` (arXiv 2501.03262): normalised over all trained tokens of
    the batch; `maxrl`: the difference to the group's mean in shares of that mean, for rewards of 0 and more;
    `grpo_passk` (arXiv 2503.19595): the best of a group alone, by how much it is ahead; `opd` (arXiv 2601.02780): a
    teacher's alone (`on_policy_distillation`), rewards are measured as by `grpo`. `normalize_rewards` is read by
    `grpo`, `gdpo` and `grpo_passk`, `use_leave_one_out_baseline` by `grpo` and `gdpo`."""
    reward_weights: dict[str, float] | tuple[float, ...] | None = None
    """Of `gdpo`: weights of the parts by name, 1 for those that are not named; or a list, one for each part in the
    order of their names; None: 1 for all."""
    normalize_over: Literal["group", "batch"] = "group"
    """Whose standard deviation `normalize_rewards` divides by: the group's, or that of all rewards of the batch."""
    minus_baseline: bool = True
    """Of `reinforce_plus_plus`: rewards are taken less the group's mean (REINFORCE++-baseline)."""
    kl_credit: Literal["token", "reward_to_go"] = "token"
    """Of `reinforce_plus_plus` with `loss_fn.use_kl_in_reward`: what a token's advantage is charged with; its own KL
    estimate, as in NeMo-RL, or the sum of its own and of those behind it in its sample, as in the paper and verl."""


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
    ppo_epochs: int = Field(default=1, ge=1)
    """How often a step goes through its batch, each time in the optimiser steps that `policy.train_global_batch_size`
    makes; the clipped ratio is to the policy before the first (PPO, arXiv 1707.06347; TRL's `num_iterations`)."""
    adv_estimator: AdvantageSettings = AdvantageSettings()
    """How rewards become advantages."""
    reward_scaling: RewardScalingSettings = RewardScalingSettings()
    """The range of rewards."""
    reward_shaping: RewardShapingSettings = RewardShapingSettings()
    """Penalties for length."""
    normalize_rewards: bool = True
    """Advantages are divided by the standard deviation, the group's or the batch's (`adv_estimator.normalize_over`)."""
    use_leave_one_out_baseline: bool = True
    """The baseline of a member is the mean of the others; False: of all."""
    use_dynamic_sampling: bool = False
    """Groups without any advantage, such as those whose rewards are all alike, do not fill a step: the next ones do,
    within their ages (DAPO, arXiv 2503.14476). Where groups are scarce, a step takes longer."""
    dynamic_sampling_max_gen_batches: int = Field(default=10, ge=1)
    """With dynamic sampling, at most so many times `num_prompts_per_step` groups are run for one step; after that
    groups without advantage fill it too (NeMo-RL ends the run there)."""
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
    val_start_at: int = Field(default=-1, ge=-1)
    """The first step after which one of these validations may come; -1 or 0: they begin with the first period."""
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
    stop_at_validation_metric: str | None = None
    """The metric of validations by which the run ends, as it is logged without `validation/`: `accuracy`, `pass_k`, one
    of an environment's; None: it ends by none."""
    stop_at_validation_threshold: float | None = None
    """The value of that metric with which the run ends, or above."""
    seed: int = 42
    """The seed of the order of prompts and of all random choices."""
    async_grpo: AsyncGrpoSettings = AsyncGrpoSettings()
    """How far rollouts may run ahead of training; null: as with `enabled` false."""

    @field_validator("async_grpo", mode="before")
    @classmethod
    def _synchronous(cls, value: Any) -> Any:
        return {"enabled": False} if value is None else value

    @model_validator(mode="after")
    def _usable(self) -> Self:
        low, high = self.advantage_clip_low, self.advantage_clip_high
        if low is not None and high is not None and low > high:
            raise ValueError(f"advantage_clip_low ({low}) is above advantage_clip_high ({high})")
        if self.use_leave_one_out_baseline and self.num_generations_per_prompt < 2:
            raise ValueError("use_leave_one_out_baseline needs num_generations_per_prompt of 2 or more")
        return self

    @property
    def advantage_bounds(self) -> tuple[float, float]:
        """The smallest and the largest advantage; infinite: there is no bound."""
        low, high = self.advantage_clip_low, self.advantage_clip_high
        return -math.inf if low is None else low, math.inf if high is None else high

    @property
    def bounds_advantages(self) -> bool:
        """Whether there are bounds, of advantages that are made with the batch."""
        is_bounded = self.advantage_clip_low is not None or self.advantage_clip_high is not None
        return is_bounded and self.adv_estimator.name != "reinforce_plus_plus"

    @model_validator(mode="after")
    def _stop(self) -> Self:
        metric = self.stop_at_validation_metric
        if (metric is None) != (self.stop_at_validation_threshold is None):
            raise ValueError("stop_at_validation_metric and stop_at_validation_threshold need each other: set both")
        if metric == "pass_k" and self.val_num_generations_per_prompt < 2:
            raise ValueError("stop_at_validation_metric pass_k needs val_num_generations_per_prompt of 2 or more")
        return self

    @model_validator(mode="after")
    def _estimator(self) -> Self:
        name, over = self.adv_estimator.name, self.adv_estimator.normalize_over
        if over == "batch" and name != "grpo":
            raise ValueError(f"adv_estimator.normalize_over `batch` is for the estimator `grpo`, not for {name!r}")
        if self.adv_estimator.reward_weights is not None and name != "gdpo":
            raise ValueError(f"adv_estimator.reward_weights is for the estimator `gdpo`, not for {name!r}")
        if self.use_dynamic_sampling and name == "reinforce_plus_plus" and not self.adv_estimator.minus_baseline:
            raise ValueError(
                "use_dynamic_sampling leaves out groups whose rewards are alike, from which reinforce_plus_plus learns "
                "where minus_baseline is false: set one of them otherwise"
            )
        flaws = (self.invalid_tool_call_advantage, self.malformed_thinking_advantage)
        if name == "reinforce_plus_plus" and any(value is not None for value in flaws):
            raise ValueError(
                "invalid_tool_call_advantage and malformed_thinking_advantage would be normalised with all others by "
                "reinforce_plus_plus: take invalid_tool_call_strategy `mask`, or the estimator `grpo`"
            )
        return self

    def validates_after(self, step: int) -> bool:
        """Whether a validation of `val_period` comes after that many steps."""
        return self.val_period > 0 and step % self.val_period == 0 and step >= self.val_start_at

    @property
    def max_age(self) -> int:
        """How old trained tokens may be, in versions of the weights."""
        return self.async_grpo.max_trajectory_age_steps if self.async_grpo.enabled else 0


class GroupSettings(_Settings):
    """`paddock.groups`: what NeMo-RL has no name for."""

    repair: Literal["drop", "leave_one_out"] = "leave_one_out"
    """A group whose missing members could not be re-rolled: `drop` it, or train on those that are there, the baseline
    from them alone."""
    min_members: int = Field(default=2, ge=1)
    """Members with a reward that a group needs. 1 makes sense with a critic (`value`) or a teacher
    (`on_policy_distillation`): a single reward is compared with nothing."""
    max_rerolls: int = Field(default=1, ge=0)
    """Further rollouts for members that failed (infra, verifier) in all their attempts."""
    member_timeout_s: float | None = Field(default=None, gt=0)
    """Seconds that a rollout may take, its attempts together (a re-roll has as many again). One that takes longer is
    cancelled, with its sandbox and its requests, and masked: it has no reward and enters no baseline; its group goes on
    with the others. It has to be above `agent_timeout_s` of agents, which ends with a verdict and is trained on, by
    what grading takes: else a policy that waits has no reward in place of a low one. None: their limits alone hold."""
    age_policy: AgePolicyName = "target_step"
    """What becomes of groups that are not there in time for `max_trajectory_age_steps`. `target_step`: each group has
    its step from its start, which waits for it (NeMo-RL). `accept_late`: steps take the oldest that have ended, however
    old, and wait for none (SkyRL): faster, with tokens of any age. `cancel`: what is too old is cancelled and its row
    run again; long rollouts are then trained on less than short ones."""
    max_retries: int = Field(default=1, ge=0)
    """How often a row is run again whose group was lost: too old (`cancel`, or an engine that lags behind), or without
    `min_members` because of failures (infra, verifier) or `member_timeout_s`. With `cancel`, steps wait for the last of
    these groups; 0: a lost row comes again in the next epoch only."""
    leak_penalty: float | None = None
    """Reward of a member with outcome `leak`, as training sees it: it is not scaled; None: it is masked."""
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


class CurriculumSettings(_Settings):
    """`paddock.curriculum`: how often rows come by the mean reward of their last group; pools and thresholds are named
    as in prime-rl's buffer. `curriculum.py` has the law."""

    easy_threshold: float = 1.0
    """Mean reward of the environment from which on a row is easy."""
    hard_threshold: float = 0.0
    """Mean reward up to which a row is hard."""
    easy_weight: float = Field(default=1.0, ge=0, le=1)
    """In which part of the rounds through the rows an easy row comes; 1: in each, as a normal one, 0: in none, so that
    it is not measured again."""
    hard_weight: float = Field(default=1.0, ge=0, le=1)
    """The same for a hard row."""
    pass_rates: str | None = None
    """The folder of a `paddock eval` over the training rows, whose mean rewards hold until a row's first group has
    ended; None: rows are normal until then."""

    @property
    def enabled(self) -> bool:
        """Whether any row comes less often than others."""
        return self.easy_weight < 1 or self.hard_weight < 1

    @model_validator(mode="after")
    def _pools(self) -> Self:
        if self.hard_threshold >= self.easy_threshold:
            raise ValueError(
                f"hard_threshold ({self.hard_threshold:g}) has to be below easy_threshold ({self.easy_threshold:g})"
            )
        for name, weight in (("easy_weight", self.easy_weight), ("hard_weight", self.hard_weight)):
            if 0 < weight < 0.001:
                raise ValueError(f"{name} is {weight:g}: take 0.001 or more, or 0 for rows that are to come no more")
        if self.pass_rates is not None and not self.enabled:
            raise ValueError("pass_rates change nothing while easy_weight and hard_weight are 1: lower one of them")
        return self
