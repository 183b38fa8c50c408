"""Rollouts of our environments in slime: a custom generate function and a reward post-process.

`--custom-generate-function-path paddock.training.slime.generate`
`--custom-reward-post-process-path paddock.training.slime.post_process_rewards`
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.training.slime.generation import generate
    from paddock.training.slime.rewards import post_process_rewards

__all__ = ["generate", "post_process_rewards"]


def __getattr__(name: str) -> Any:
    if name == "generate":
        from paddock.training.slime.generation import generate

        return generate
    if name == "post_process_rewards":
        from paddock.training.slime.rewards import post_process_rewards

        return post_process_rewards
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
