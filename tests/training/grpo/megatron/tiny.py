"""Models and settings of the tests of the policy on Megatron-core. Runs in the environment that has torch."""

import random
from pathlib import Path
from typing import Any

import numpy as np
from tests.training.grpo import tiny_policy

from paddock.training.core.records import Batch
from paddock.training.grpo.policy_settings import PolicySettings

VOCABULARY = 96
"""Two processes can divide it."""
LENGTHS = (9, 30, 14, 22, 6, 17)
HOOK = "tests.training.grpo.megatron.cpu_megatron:prepare"
ADAM = {"lr": 7e-4, "weight_decay": 0.0, "use_distributed_optimizer": False}


def make_models(folder: Path) -> None:
    for name, kind in (("dense", tiny_policy.make_model), ("experts", tiny_policy.make_experts)):
        kind(folder / name, VOCABULARY)


def settings(folder: Path, megatron: dict[str, Any], loss: Any = None, **policy: Any) -> PolicySettings:
    """Of both backends the same."""
    optimizer = {**ADAM, **megatron.get("optimizer", {})}
    block = {"enabled": True, "setup_hook": HOOK, **megatron, "optimizer": optimizer}
    shared = {"train_micro_batch_size": 2, **policy}
    return tiny_policy.settings(
        folder,
        {"truncated_importance_sampling_type": "tis", "truncated_importance_sampling_ratio": 2.0, **(loss or {})},
        megatron_cfg=block,
        **shared,
    )


def batch(step: int = 0) -> Batch:
    """The last row has no advantage."""
    chance = random.Random(step)
    rows = [tiny_policy.row(chance, length, nth, VOCABULARY) for nth, length in enumerate(LENGTHS)]
    rows[-1] = rows[-1]._replace(advantages=np.zeros_like(rows[-1].advantages))
    return Batch(step, rows, [], [], [])
