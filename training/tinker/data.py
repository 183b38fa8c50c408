"""Groups of rollouts as the data of a Tinker-style API: each position predicts the id after it.

Law     the advantage of a member is computed from those that have a reward; a member without one gives no datum. A
        sample whose advantage is 0 gives none either: it moves nothing, and the server would compute it.
Mask    advantage 0 where the id is not trained on.
"""

from collections.abc import Iterable, Iterator

from tinker import Datum, ModelInput

from paddock.rollouts import RolloutGroup
from paddock.tokens.export import Sample
from paddock.training.core.advantages import group_advantages
from paddock.training.core.settings import GrpoSettings


def training_data(groups: Iterable[RolloutGroup], grpo: GrpoSettings) -> list[Datum]:
    """The data of a step, for the losses `importance_sampling`, `ppo` and `cispo`."""
    return [datum for group in groups for datum in _group_data(group, grpo)]


def _group_data(group: RolloutGroup, grpo: GrpoSettings) -> Iterator[Datum]:
    for member, advantage in zip(group.members, group_advantages(group.rewards, grpo), strict=True):
        if advantage:
            yield from (_datum(entry.sample, advantage) for entry in member.samples)


def _datum(sample: Sample, advantage: float) -> Datum:
    return Datum(
        model_input=ModelInput.from_ints(sample.ids[:-1]),
        loss_fn_inputs={
            "target_tokens": sample.ids[1:],
            "logprobs": sample.log_probs[1:],
            "advantages": [advantage * trained for trained in sample.loss_mask[1:]],
        },
    )
