"""SkyRL's simulated training (`trainer.fully_async.simulate_training`), which needs no model and no GPU.

Source  SkyRL 0.4.0's stand-in for what sends weights lacks two methods that its trainer calls: it ends after its first
        step. They are added here.
"""

from typing import Any

from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim


class SimulatedTrainer(FullyAsyncTrainerSim):  # type: ignore[misc]
    """Takes groups as the fully asynchronous trainer does, and waits where that would train."""

    def init_weight_sync_state(self) -> None:
        """Add what the stand-in lacks."""
        super().init_weight_sync_state()
        self.dispatch.get_timing_metrics = _no_timings
        self.dispatch.finalize_pending_saves = _nothing


def _no_timings() -> dict[str, float]:
    return {}


def _nothing(_model: Any) -> None:
    return
