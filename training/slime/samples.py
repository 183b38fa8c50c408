"""A rollout as slime's samples.

Source  THUDM/slime, `slime/utils/types.py`: `Sample`. Several samples of one rollout share a `rollout_id`, so that the
        loss weighs the rollout once; `loss_mask` and `rollout_log_probs` are of the response, which begins with the
        first token that was sampled.
Experts `rollout_routed_experts` has a row for each token but the last, as SGLang's has. slime wants them of all
        samples, or of none: where they are recorded, a sample with nothing to train on has a row of its own.
Failed  a rollout with nothing to train on is one sample with a mask of zeros and `remove_sample`. Its reward is 0 by
        form alone: `metadata["paddock_mask"]` says why, and `rewards` leaves it out of the baseline.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

from paddock.rollouts import TrainingRollout
from paddock.tokens.export import RolloutSample
from paddock.training.core.experts import expert_array, placeholder_array

MASK = "paddock_mask"
PLACEHOLDER_ID = 0
"""In every vocabulary."""


class ExpertsWidth(NamedTuple):
    """The experts of a token."""

    layers: int
    k: int


def slime_samples(
    given: Any, rollout: TrainingRollout, decode: Callable[[list[int]], str], experts: ExpertsWidth | None = None
) -> list[Any]:
    """The samples of a rollout, in the place of slime's own `given`. `experts`: None: they are not replayed."""
    if rollout.mask is not None:
        return [_masked(given, rollout, experts)]
    return [_sample(given, entry, rollout, decode) for entry in rollout.samples]


def _sample(given: Any, entry: RolloutSample, rollout: TrainingRollout, decode: Callable[[list[int]], str]) -> Any:
    ids, mask, start = entry.sample.ids, entry.sample.loss_mask, entry.sample.prompt_length
    sample = _fresh(given, rollout)
    sample.tokens, sample.response_length = list(ids), len(ids) - start
    sample.loss_mask, sample.rollout_log_probs = list(mask[start:]), list(entry.sample.log_probs[start:])
    sample.response = decode(list(ids[start:]))
    if entry.sample.routed_experts is not None:
        sample.rollout_routed_experts = expert_array(entry.sample.routed_experts)
    sample.reward = rollout.reward
    sample.status = type(given).Status.TRUNCATED if entry.cut else type(given).Status.COMPLETED
    sample.weight_versions = [
        span.weight_version for span in entry.sample.spans if span.trained and span.weight_version
    ]
    return sample


def _masked(given: Any, rollout: TrainingRollout, experts: ExpertsWidth | None) -> Any:
    sample = _fresh(given, rollout)
    if experts is not None:
        sample.rollout_routed_experts = placeholder_array(1, *experts)
    sample.tokens, sample.response_length = [PLACEHOLDER_ID, PLACEHOLDER_ID], 1
    sample.loss_mask, sample.rollout_log_probs = [0], [0.0]
    sample.reward, sample.remove_sample = 0.0, True
    sample.status = type(given).Status.FAILED
    sample.metadata[MASK] = rollout.mask
    return sample


def _fresh(given: Any, rollout: TrainingRollout) -> Any:
    sample = copy(given)
    sample.rollout_id = given.index
    sample.metadata = {**given.metadata, "paddock": {"outcome": rollout.outcome, "reason": rollout.reason}}
    return sample
