"""What a loop is given and what it gives: its settings, the reports of steps, what it does now, how a run ended.

Units   steps, groups; seconds where a name ends in `_s`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.training.core.distillation import DistillationSettings
from paddock.training.core.ledger import LostGroup
from paddock.training.core.order import RowPool
from paddock.training.core.records import Batch
from paddock.training.core.settings import CurriculumSettings, GroupSettings, GrpoSettings

EndReason = Literal["steps", "rows", "time", "validation"]


class LoopSettings(NamedTuple):
    """The settings of a loop."""

    grpo: GrpoSettings
    groups: GroupSettings
    pools: Sequence[RowPool]
    """The rows of the training dataset, and how often they are drawn."""
    max_length: int
    """`policy.max_total_sequence_length`, in tokens."""
    curriculum: CurriculumSettings = CurriculumSettings()
    """How often they come by their pass rates."""
    pass_rates: Mapping[int, float] = {}
    """Mean rewards that were measured before, by the row's index."""
    environments: Mapping[str, str] = {}
    """The resources server of each agent, by their names: whose failures are counted together."""
    shuffle: bool = True
    metric: str | None = None
    """The metric by which checkpoints are kept, as it is logged (`train/total_reward/mean`, `validation/accuracy`)."""
    save_period: int = 10
    """Steps between checkpoints; another one is stored at the end of a run."""
    save_in_background: bool = False
    """The next steps go on while a checkpoint is written; it counts once all of it is on the disk."""
    must_save_by_s: float | None = None
    """After so long the run ends with the current step and stores a checkpoint; None: it has no such limit."""
    send_deadline_s: float = 600.0
    """How long the run tries to send weights to engines that fail or have not started."""
    poll_s: float = 5.0
    """How often the loop checks, while the policy waits, whether an engine was restarted and needs weights."""
    retry_s: float = 1.0
    """Pause between two tries to send."""
    distillation: DistillationSettings | None = None
    """What teachers' scores do to advantages; None: there are none."""
    replays_experts: bool = False
    """The policy goes through the engine's experts."""
    export: Path | None = None
    """Folder to which the weights of the best checkpoint (the last ones, where none is stored) are written at the end,
    in the format of Hugging Face; None: they are not written."""


class StepReport(NamedTuple):
    """The metrics of one step; or of a validation at the start or the end, where `batch` is None."""

    steps: int
    """How many steps have been done: the x axis of every curve; 0 before the first."""
    batch: Batch | None
    lost: tuple[LostGroup, ...]
    """Groups lost since the last report."""
    metrics: dict[str, float]
    """`train/...`, `validation/...`, `timing/...` (seconds, shares), `buffer/...` (groups), `lost/...` (how many
    seconds the groups lost since the last report had run, all and by reason), `rollouts/...` (`rollout_tally`)."""


class LoopStatus(NamedTuple):
    """What a loop does now."""

    step: int
    """The step to train next, from 0."""
    span: str | None
    """`wait_s`, `train_s`, `drain_s`, `send_s`, `validate_s` or `checkpoint_s`; None: between them."""
    span_s: float
    """Seconds since the span began."""
    n_waiting: int
    """Groups that have ended and wait for their step."""
    n_needed: int
    """Groups that a step takes."""
    running: dict[int, float]
    """Seconds that each running group has run, by its id, the longest first."""


class RunResult(NamedTuple):
    """How a run ended."""

    why: EndReason
    """`steps`: `max_num_steps` were done; `rows`: all epochs are over; `time`: `must_save_by_s` was reached;
    `validation`: `stop_at_validation_metric` reached its threshold."""
    steps: int
    n_started: int
    """Groups started in the whole run, with those that were left at the end."""
    n_trained: int
    lost: dict[str, int]
    """Lost groups, by reason."""
    n_retries: int
    """Lost groups whose row was run again."""
    wait_share: float
    """The share of its time that the policy waited (0 to 1), since this start; the rest it trained and sent."""
    checkpoint: Path | None
    """The newest checkpoint."""
    best: Path | None
    """The best checkpoint by its metric."""
    exported: int | None
    """How many steps the exported weights have had; None: none were exported."""

    @property
    def failure(self) -> str | None:
        """Why the run failed though it came to its end: it had rows, and made no step of them. None: it did not."""
        if self.steps or self.why != "rows":
            return None
        lost = ", ".join(f"{count} {reason}" for reason, count in self.lost.items() if count)
        return f"no step was made: {self.n_started} groups are not enough for one (lost: {lost or 'none'})"
