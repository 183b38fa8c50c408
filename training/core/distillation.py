"""On-policy distillation: the advantage of each token by a teacher's log-probs.

Formula `coefficient * (log p_teacher - log p_student)` of each trained token, in nats, p_student as the engine sampled
        it; in place of the reward's advantage, or added to it; bounded by `grpo.advantage_clip_low` and `_high`. Its
        mean over what the policy samples is minus the reverse KL divergence from the teacher, token by token: raising
        it lowers that.
Source  GKD (arXiv 2306.13649), MOPD (arXiv 2601.02780, equation 8: NeMo-RL's `OPDAdvantageEstimator`, which takes the
        trainer's log-probs before the step in place of the engine's).
Law     a sample that no teacher scored is not trained on: `teacher_failed`.
"""

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DistillationSettings(BaseModel):
    """What a teacher's log-probs do to advantages: keys of `on_policy_distillation`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    coefficient: float = Field(default=1.0, gt=0)
    """By what the difference of log-probs is multiplied (theirs: 1)."""
    with_rewards: bool = False
    """True: added to the advantage of rewards. False: it stands alone, and rewards are measured only (NeMo-RL's
    `grpo.adv_estimator.name: opd`)."""


def teacher_advantages(
    log_probs: "NDArray[np.float32]", teacher_log_probs: "NDArray[np.float32]", settings: DistillationSettings
) -> "NDArray[np.float32]":
    """The advantages by the teacher, `[length]`; without meaning where the token is not trained on."""
    return settings.coefficient * (teacher_log_probs - log_probs)
