"""`python drive_critic.py`: GAE and the value loss, ours and verl's, of the same random samples, in a line of JSON."""

import json
import sys

import numpy as np
import torch
from verl.trainer.ppo.core_algos import compute_gae_advantage_return, compute_value_loss

from paddock.training.core.gae import gae, token_rewards, whitened
from paddock.training.grpo.critic import value_loss

ROWS, LENGTH, GAMMA, LAM, CLIP = 6, 400, 0.99, 0.95, 0.2


def main() -> None:
    torch.manual_seed(0)
    values, now = (torch.randn(ROWS, LENGTH, dtype=torch.float64) for _ in range(2))
    mask = (torch.rand(ROWS, LENGTH) < 0.6).double()
    rewards = torch.rand(ROWS, dtype=torch.float64)
    by_token = torch.zeros_like(values)
    for row in range(ROWS):
        by_token[row, int(mask[row].nonzero()[-1])] = rewards[row]
    theirs, returns = compute_gae_advantage_return(by_token, values, mask, GAMMA, LAM)
    on = mask.bool()
    own = [
        gae(
            values[row][on[row]].numpy(),
            token_rewards(float(rewards[row]), int(on[row].sum())),
            gamma=GAMMA,
            lam=LAM,
        )
        for row in range(ROWS)
    ]
    flat = np.concatenate([credits.returns for credits in own])
    loss, clipped = compute_value_loss(now, returns, values, mask, CLIP)
    found = value_loss(now[on], values[on], torch.from_numpy(flat), CLIP)
    n_tokens = float(mask.sum())
    told = {
        "advantages": float(
            np.abs(np.concatenate(whitened([credits.advantages for credits in own])) - theirs[on].numpy()).max()
        ),
        "returns": float(np.abs(flat - returns[on].numpy()).max()),
        "loss": [float(found.loss) / n_tokens, float(loss)],
        "clipped": [float(found.clipped) / n_tokens, float(clipped)],
        "spread": float(theirs[on].std()),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
