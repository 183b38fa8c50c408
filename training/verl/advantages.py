"""verl's GRPO advantage without the rollouts that have nothing to train on: `algorithm.adv_estimator: paddock_grpo`.

Law     a response with a mask of zeros enters no baseline and has the advantage 0; verl's `grpo` would take its reward
        into mean and deviation. A response whose group has no other left has nothing to be compared with: 0; verl's
        `grpo` gives it its reward as advantage.
Use     importing this module registers it. verl imports it by itself where the package is installed (entry points,
        `verl.plugins`), else by `VERL_USE_EXTERNAL_MODULES=paddock.training.verl.advantages`.
"""

from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, register_adv_est

from paddock.training.verl.settings import ESTIMATOR


@register_adv_est(ESTIMATOR)  # type: ignore[untyped-decorator]
def compute_masked_grpo_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: "np.ndarray[Any, Any]",
    config: Any = None,
    **_others: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns, `[batch, response]`; `index` `[batch]`: the group of each response."""
    there = response_mask.bool().any(dim=-1).cpu().numpy()
    groups, counts = np.unique(index[there].astype(str), return_counts=True)
    compared = there & np.isin(index.astype(str), groups[counts > 1])
    advantages = torch.zeros_like(token_level_rewards)
    if compared.any():
        rows = torch.as_tensor(compared, device=advantages.device)
        by_std = True if config is None else bool(config.get("norm_adv_by_std_in_grpo", True))
        advantages[rows], _ = compute_grpo_outcome_advantage(
            token_level_rewards[rows], response_mask[rows], index[compared], norm_adv_by_std_in_grpo=by_std
        )
    return advantages, advantages
