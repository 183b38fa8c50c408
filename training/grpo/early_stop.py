"""The end of a run by its validations: `grpo.stop_at_validation_metric`.

Source  NVIDIA-NeMo/RL, `nemo_rl/algorithms/grpo.py`: the run ends with the step after which the metric is the threshold
        or more, and before the first one where the validation at the start finds it so.
Law     a validation without a verdict says nothing. A metric that one validation had may be missing in a later one,
        where failures left none of the verdicts it is made of.
Errors  ConfigError `stop_metric` for a metric that the first validation with verdicts does not have.
"""

import logging
from collections.abc import Mapping

from paddock.config import nearest
from paddock.errors import ConfigError
from paddock.training.core.settings import GrpoSettings

_log = logging.getLogger("paddock.training")
_PREFIX = "validation/"


class EarlyStop:
    """Judges the validations of one start of a run. `resumed`: a missing metric is a warning from the first one on."""

    def __init__(self, grpo: GrpoSettings, *, resumed: bool = False) -> None:
        self._name = grpo.stop_at_validation_metric
        self._threshold = grpo.stop_at_validation_threshold
        self._was_found = resumed

    def ends(self, metrics: Mapping[str, float]) -> bool:
        """Whether the run ends with the step of these metrics, as they are logged; False where it was not followed by a
        validation."""
        if self._name is None or self._threshold is None or not metrics.get(f"{_PREFIX}n_verdicts"):
            return False
        value = metrics.get(f"{_PREFIX}{self._name}")
        if value is None:
            self._report_missing(metrics)
            return False
        self._was_found = True
        return value >= self._threshold

    def _report_missing(self, metrics: Mapping[str, float]) -> None:
        names = [name.removeprefix(_PREFIX) for name in metrics if name.startswith(_PREFIX)]
        close = nearest(self._name or "", names)
        hint = f"; nearest: {close}" if close else ""
        text = f"grpo.stop_at_validation_metric: the validation has no {self._name}{hint}"
        if not self._was_found:
            raise ConfigError(f"{text}; it has {', '.join(sorted(names))}", kind="stop_metric")
        _log.warning(text)
