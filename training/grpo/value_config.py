"""The `value` block: PPO with a critic, in place of a group's baseline. On torch alone.

Source  NVIDIA-NeMo/RL, `examples/configs/ppo_math_1B.yaml`: its `value`, `value_loss_fn` and `ppo.adv_estimator`.
"""

from pydantic import Field

from paddock.training.grpo.blocks import SettingsBlock
from paddock.training.grpo.policy_config import OptimizerConfig, SchedulerConfig


class ValueConfig(SettingsBlock):
    """`value`."""

    enabled: bool = False
    """Whether a critic predicts the reward at each token, and advantages are GAE's. Groups may be of one rollout."""
    model_name: str | None = None
    """Folder or name of the model that the critic begins with, with a head of zeros; None: the policy's."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The critic's own optimizer."""
    scheduler: SchedulerConfig = SchedulerConfig()
    """Schedule of its learning rate; none given: it is constant."""
    max_grad_norm: float | None = Field(default=1.0, gt=0)
    """Largest norm of its gradient; None: gradients are not clipped."""
    cliprange: float | None = Field(default=0.2, gt=0)
    """How far a value may move in one step before the loss stops rewarding it; None: any distance (theirs:
    `value_loss_fn.cliprange`)."""
    loss_scale: float = Field(default=1.0, gt=0)
    """Factor of the loss, which matters where its gradient is clipped (theirs: `value_loss_fn.scale`)."""
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """Between the critic's word alone (0) and the reward's alone (1)."""
    gae_lambda_policy: float | None = Field(default=None, ge=0, le=1)
    """That of advantages; None: `gae_lambda`."""
    gae_lambda_value: float | None = Field(default=None, ge=0, le=1)
    """That of what the critic is to predict (VAPO, arXiv 2504.05118: 1); None: `gae_lambda`."""
    length_adaptive_alpha: float = Field(default=0.0, ge=0)
    """VAPO: the lambda of advantages is 1 - 1 / (this * the sample's trained tokens), at least 0, in place of any other
    (the paper: 0.05); 0: it is not."""
    gae_gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount of a token's reward to the token before."""
    normalize_advantages: bool = True
    """Advantages of a step have the mean 0 and the variance 1 over its tokens."""
    policy_training_start_step: int = Field(default=0, ge=0)
    """Steps in which the critic learns alone, at the start of a run."""

    @property
    def lam_returns(self) -> float:
        """The lambda of what the critic is to predict."""
        return self.gae_lambda if self.gae_lambda_value is None else self.gae_lambda_value

    def lam_advantages(self, n_tokens: int) -> float:
        """The lambda of the advantages of a sample of so many trained tokens."""
        if self.length_adaptive_alpha:
            return max(0.0, 1 - 1 / max(self.length_adaptive_alpha * n_tokens, 1.0))
        return self.gae_lambda if self.gae_lambda_policy is None else self.gae_lambda_policy
