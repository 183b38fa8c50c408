"""What a group's lengths and formatting add to its judged scores: bonuses for brevity among the best, centred terms.

Bonus   the member with the shortest reasoning that is not empty gets `reasoning_bonus` if its score reaches the
        threshold: the judged score at place max(0, int(n x top_percentile) - 1) of the descending list. Then
        `answer_bonus` likewise, where the score has its reasoning bonus already and the threshold is the same. Of
        several that are equally short only the first by number is looked at.
Term    w = 1 - (x - min) / (max - min) over the group, minus its mean, times the coefficient; 0 where all are equal.
        So a term's sum over the group is 0, and less is better. Empty texts count as length 0.
Source  NeMo-Gym's `genrm_compare`.
"""

import math
from collections.abc import Mapping

from paddock.resources_servers.genrm.config import RewardSettings
from paddock.resources_servers.genrm.records import ResponseTraits

Values = Mapping[int, float]
"""By member number."""


def reward_adjustments(
    scores: Values, traits: Mapping[int, ResponseTraits], settings: RewardSettings
) -> dict[str, dict[int, float]]:
    """Return by component what it adds to each member; components whose weight is 0 are left out.

    `scores` are the judge's scores; `traits` those of the same members.
    """
    reasoning = {member: float(traits[member].reasoning_chars) for member in scores}
    answers = {member: float(traits[member].answer_chars) for member in scores}
    style = {member: traits[member].style_density for member in scores}
    threshold = _threshold(scores, settings.top_percentile)
    bonus = _bonus(settings.reasoning_bonus, reasoning, scores, threshold)
    raised = {member: score + bonus[member] for member, score in scores.items()}
    components = {
        "reasoning_bonus": (settings.reasoning_bonus, bonus),
        "answer_bonus": (settings.answer_bonus, _bonus(settings.answer_bonus, answers, raised, threshold)),
        "reasoning_length": _weighted(settings.group_reasoning_length_penalty_coeff, reasoning),
        "answer_length": _weighted(settings.group_answer_length_penalty_coeff, answers),
        "style": _weighted(settings.group_style_penalty_coeff, style),
    }
    return {name: values for name, (weight, values) in components.items() if weight}


def centred(values: Values) -> dict[int, float]:
    """Return weights of sum 0; the least value has the greatest."""
    low, high = min(values.values()), max(values.values())
    if low == high:
        return dict.fromkeys(values, 0.0)
    weights = {member: 1.0 - (value - low) / (high - low) for member, value in values.items()}
    mean = math.fsum(weights.values()) / len(weights)
    return {member: weight - mean for member, weight in weights.items()}


def _weighted(coefficient: float, values: Values) -> tuple[float, dict[int, float]]:
    return coefficient, {member: coefficient * weight for member, weight in centred(values).items()}


def _threshold(scores: Values, top_percentile: float) -> float:
    index = max(0, int(len(scores) * top_percentile) - 1)
    return sorted(scores.values(), reverse=True)[index]


def _bonus(bonus: float, lengths: Values, scores: Values, threshold: float) -> dict[int, float]:
    shortest = min((member for member in sorted(lengths) if lengths[member] > 0), key=lengths.__getitem__, default=None)
    return {member: bonus if member == shortest and scores[member] >= threshold else 0.0 for member in lengths}
