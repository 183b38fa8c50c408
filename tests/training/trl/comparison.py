"""Our loss over what TRL's asynchronous trainer made its own of (`drive_async.RecordingAsyncTrainer`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.plain_arrays import PlainArrays, Vector


def our_loss(given: Mapping[str, Any], epsilon: Sequence[float]) -> float:
    """`epsilon`: how far the ratio may be below 1, and above."""
    low, high = epsilon
    settings = LossSettings(
        ratio_clip_min=low, ratio_clip_max=high, token_level_loss=True, ratio_against="generation"
    )  # fmt: skip
    n_rows = max(given["rows"]) + 1
    tokens = TrainedTokens(
        log_probs=Vector(given["log_probs"]),
        engine_log_probs=Vector(given["engine"]),
        advantages=Vector(given["advantages"]),
        rows=Vector(given["rows"]),
        n_rows=n_rows,
        old_log_probs=Vector(given["engine"]),
    )
    ours, _ = policy_loss(tokens, BatchTotals(len(given["rows"]), n_rows), settings, PlainArrays())
    return ours.values[0] / float(given["scale"])
