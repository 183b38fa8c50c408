"""How a trainer has its rollouts: the `rollouts` block of a config, or keywords of `paddock.open_rollouts`.

Errors  a value that breaks a field's rule is a ConfigError that names the field.
"""

from pydantic import BaseModel, ConfigDict, Field

from paddock.collect.settings import ClusterAddress, Label
from paddock.tokens.export import Mode


class RolloutOptions(BaseModel):
    """Options of the rollouts of one trainer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample_mode: Mode = "branch"
    """How a rollout becomes samples; the modes of `paddock samples`."""
    max_rollouts: int = Field(default=64, ge=1)
    """Rollouts that run at once; further ones wait for a free place, in the order in which they were asked for."""
    max_groups: int | None = Field(default=None, ge=1)
    """Groups of a stream that run, or have ended and were not read: a trainer that reads no more holds the others back.
    None: as many as `max_rollouts` has room for."""
    max_rerolls: int = Field(default=0, ge=0)
    """Further rollouts for a member that failed (`infra`, `verifier`) in all its attempts (`eval.max_attempts`)."""
    workers: int | None = Field(default=None, ge=1)
    """Processes that rollouts run in, as `eval.workers`; an engine function is called in the trainer's process alone.
    1: that process runs them all. None: 1, or with `cluster` one for each CPU of its nodes."""
    cluster: ClusterAddress | None = None
    """The Ray cluster on whose nodes the workers are, as `eval.cluster`; None: they are here."""
    cluster_label: Label | None = None
    """Of the nodes that workers may be on, as `eval.cluster_label`."""
    out: str | None = None
    """Folder in which each start has a folder of its own with its rollouts, as `paddock eval` writes them; None:
    nothing is written."""

    @property
    def is_spread(self) -> bool:
        """Whether rollouts run in processes of their own."""
        return self.cluster is not None or self.workers not in (None, 1)
