"""How TRL has its rollouts: the settings of our rollout worker.

Errors  a value that breaks a field's rule is a ValidationError that names the field.
"""

from pydantic import BaseModel, ConfigDict, Field

from paddock.training.core.settings import GrpoSettings


class TrlWorkerSettings(BaseModel):
    """Settings of one rollout worker."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_generations: int = Field(default=8, ge=2)
    """Rollouts of each row."""
    max_queued_samples: int = Field(default=256, ge=1)
    """Samples that wait for the trainer; while there are as many, no group is read, and so none begins."""
    max_lost_groups: int = Field(default=16, ge=1)
    """Groups in a row with fewer than two rewarded members that training tolerates; as many end it."""
    grpo: GrpoSettings = GrpoSettings()
    """How advantages are computed: `use_leave_one_out_baseline`, `normalize_rewards`, `advantage_clip_low` and
    `advantage_clip_high` of it are read."""
    seed: int = 0
    """Of the order of rows, which is another one each time they are gone through."""
