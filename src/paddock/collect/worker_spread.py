"""How independent items (`items`) are spread over workers."""

import sys

from pydantic import BaseModel, ConfigDict, Field

from paddock.collect.settings import ClusterAddress, Label


class WorkerSpread(BaseModel):
    """How many workers make the items, where they are, and what the loss of one may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int | None = Field(default=None, ge=1)
    """None: 1, or with `cluster` one for each CPU of its nodes."""
    cluster: ClusterAddress | None = None
    """As `eval.cluster`; None: this machine."""
    cluster_label: Label | None = None
    """As `eval.cluster_label`."""
    cluster_look_s: float = Field(default=5.0, gt=0)
    """As `eval.cluster_look_s`."""
    cluster_wait_s: float = Field(default=120.0, gt=0)
    """As `eval.cluster_wait_s`."""
    attempts: int = Field(default=3, ge=1)
    """At one item, the first included, while workers are lost with it."""
    max_restarts: int = Field(default=20, ge=0)
    """Of each worker."""
    restart_wait_s: float = Field(default=0.5, ge=0)
    """Before the first restart; then twice as long each time."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    stop_timeout_s: float = Field(default=10.0, gt=0)
    silence_s: float = Field(default=300.0, gt=0)
    """Seconds without a sign of a worker, which gives one each second; then it is replaced."""

    @property
    def is_here(self) -> bool:
        """True: this process alone does the work."""
        return self.workers in (None, 1) and self.cluster is None

    def n_at_once(self, at_once: int | None, n_items: int) -> int:
        """How many of `n_items` may be asked for at once. `at_once`: how many are made; None: one by each worker."""
        if at_once is None:
            return 1 if self.is_here else n_items
        return min(at_once, n_items)

    def most(self, at_once: int | None, n_items: int | None) -> int:
        """How many workers there may be. `n_items`: None: that is not known."""
        wanted = self.workers or (1 if self.cluster is None else None)
        return max(1, min(bound for bound in (wanted, at_once, n_items, sys.maxsize) if bound is not None))

    def slots(self, nth: int, at_once: int | None, most: int) -> int:
        """How many items a worker of `most` may have. On a cluster it may have all, while it is the only one."""
        if at_once is None or self.cluster is not None:
            return at_once or 1
        share, more = divmod(at_once, most)
        return share + (nth < more)
