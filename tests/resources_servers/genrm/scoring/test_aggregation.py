"""Rewards follow from judges' answers by the stated arithmetic, and their components sum to them."""

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.genrm.config import RewardSettings
from paddock.resources_servers.genrm.records import PairComparison, ResponseTraits
from paddock.resources_servers.genrm.scoring.aggregation import group_rewards
from paddock.resources_servers.genrm.scoring.parsing import read_scores

STAGE_3 = RewardSettings(
    reasoning_bonus=0.5,
    answer_bonus=0.5,
    top_percentile=0.2,
    group_reasoning_length_penalty_coeff=0.3,
    group_answer_length_penalty_coeff=0.35,
    group_style_penalty_coeff=0.05,
)
PLAIN = RewardSettings()


def of(first: int, second: int, score_1: float, score_2: float, ranking: float, *, judge: int = 0) -> PairComparison:
    return PairComparison(
        response_i=first, response_j=second, judge_idx=judge, score_1=score_1, score_2=score_2, ranking=ranking
    )


def answered(first: int, second: int, text: str) -> PairComparison:
    found = read_scores(text, default_score=3.0, default_ranking=3.5)
    assert found is not None
    return PairComparison(response_i=first, response_j=second, **found.model_dump())


def traits(reasoning: Sequence[int], answers: Sequence[int], style: Sequence[float]) -> dict[int, ResponseTraits]:
    return {
        member: ResponseTraits(reasoning_chars=one, answer_chars=two, style_density=three)
        for member, (one, two, three) in enumerate(zip(reasoning, answers, style, strict=True))
    }


def same_traits(size: int) -> dict[int, ResponseTraits]:
    return traits([100] * size, [100] * size, [0.0] * size)


def near(expected: Mapping[int, float]) -> object:
    return pytest.approx(expected, abs=1e-9, rel=0)


def test_stage_3_of_four_by_hand() -> None:
    comparisons = [
        answered(0, 1, 'Both do it.\n```json\n{"score_1": 4, "score_2": 4, "ranking": 2}\n```'),
        answered(1, 2, 'Not {"score_1": 5, "score_2": 5}, rather {"score_1": 3, "score_2": 5, "ranking": 6}'),
        answered(2, 3, '{"score_1": 4}'),
        answered(3, 0, '```json\n{"overall": {"score_1": 2, "score_2": 2}}\n```'),
    ]
    group = traits(reasoning=[100, 300, 100, 0], answers=[400, 200, 80, 120], style=[0.02, 0.0, 0.01, 0.04])

    found = group_rewards(range(4), comparisons, group, STAGE_3)

    # 0 and 1 are tied and ranked 2: moved by 3.5 - 2; 3 and 0 are tied and not ranked: moved by 3.5 - 3.5.
    judge = {0: (4 + 1.5 + 2 - 0) / 2, 1: (4 - 1.5 + 3) / 2, 2: (5 + 4) / 2, 3: (3 + 2 + 0) / 2}
    # Threshold: int(4 x 0.2) = 0, so the best, 4.5. Shortest reasoning: 0, before 2; its 3.75 is less. Answer: 2.
    answer_bonus = {0: 0.0, 1: 0.0, 2: 0.5, 3: 0.0}
    # w: 2/3, 0, 2/3, 1, of mean 7/12.
    reasoning = {0: 0.3 * 1 / 12, 1: -0.3 * 7 / 12, 2: 0.3 * 1 / 12, 3: 0.3 * 5 / 12}
    # w: 0, 200/320, 1, 280/320, of mean 0.625.
    answer = {0: -0.35 * 0.625, 1: 0.0, 2: 0.35 * 0.375, 3: 0.35 * 0.25}
    # w: 1/2, 1, 3/4, 0, of mean 9/16.
    style = {0: -0.05 / 16, 1: 0.05 * 7 / 16, 2: 0.05 * 3 / 16, 3: -0.05 * 9 / 16}
    assert judge == {0: 3.75, 1: 2.75, 2: 4.5, 3: 2.5}
    assert found.rewards == near({0: 3.553125, 1: 2.596875, 2: 5.165625, 3: 2.684375})
    for member in range(4):
        assert found.components[member] == pytest.approx(
            {
                "judge": judge[member],
                "reasoning_bonus": 0.0,
                "answer_bonus": answer_bonus[member],
                "reasoning_length": reasoning[member],
                "answer_length": answer[member],
                "style": style[member],
            },
            abs=1e-9,
        )
    assert found.tiebreaks == 2


def test_stage_3_of_sixteen_by_hand() -> None:
    answers = [
        (5, 3, 1), (4, 4, 3), (2, 5, 6), (5, 1, 1), (3, 3, 6), (4, 2, 2), (1, 2, 4), (3, 4, 4),
        (5, 5, 1), (2, 3, 4), (3, 2, 3), (4, 1, 1), (2, 4, 5), (3, 5, 5), (4, 4, 3.5), (1, 3, 5),
    ]  # fmt: skip
    comparisons = [of(first, (first + 1) % 16, *answer) for first, answer in enumerate(answers)]
    group = traits(
        reasoning=[0, 200, 200, 200, 200, 100, *[200] * 9, 500],
        answers=[150, 150, 150, 250, *[150] * 10, 50, 150],
        style=[0.01] * 16,
    )

    found = group_rewards(range(16), comparisons, group, STAGE_3)

    # (Score as the second of the comparison before, and as the first of its own) / 2; ties moved by 3.5 - ranking.
    judge = [
        (3 + 5) / 2, (3 + 4.5) / 2, (3.5 + 2) / 2, (5 + 5) / 2, (1 + 0.5) / 2, (5.5 + 4) / 2, (2 + 1) / 2, (2 + 3) / 2,
        (4 + 7.5) / 2, (2.5 + 2) / 2, (3 + 3) / 2, (2 + 4) / 2, (1 + 2) / 2, (4 + 3) / 2, (5 + 4) / 2, (4 + 1) / 2,
    ]  # fmt: skip
    expected = dict(enumerate(judge))
    # Threshold: int(16 x 0.2) - 1 = 2, the third of 5.75, 5, 4.75, 4.5, ...: member 5 has it, 14 does not.
    expected[5] += 0.5
    # Reasoning 0 to 500: w = 1 for 0, 0.8 for 5, 0 for 15, 0.6 for the others, of mean 0.6.
    expected[0] += 0.3 * 0.4
    expected[5] += 0.3 * 0.2
    expected[15] -= 0.3 * 0.6
    # Answers 50 to 250: w = 1 for 14, 0 for 3, 0.5 for the others, of mean 0.5. Style: all alike.
    expected[14] += 0.35 * 0.5
    expected[3] -= 0.35 * 0.5
    assert found.rewards == near(expected)
    assert found.rewards == near(
        dict(enumerate([4.12, 3.75, 2.75, 4.825, 0.75, 5.31, 1.5, 2.5, 5.75, 2.25, 3, 3, 1.5, 3.5, 4.675, 2.32]))
    )
    assert found.tiebreaks == 4
    assert {parts["style"] for parts in found.components.values()} == {0.0}


def test_one_member_may_have_both_bonuses_and_empty_texts_have_none() -> None:
    comparisons = [of(0, 1, 4, 3, 3), of(1, 0, 3, 4, 4)]
    both = RewardSettings(reasoning_bonus=0.5, answer_bonus=0.25)
    found = group_rewards([0, 1], comparisons, traits([10, 20], [30, 40], [0, 0]), both)
    assert found.rewards == {0: 4 + 0.5 + 0.25, 1: 3.0}
    found = group_rewards([0, 1], comparisons, traits([0, 20], [0, 40], [0, 0]), both)
    assert found.rewards == {0: 4.0, 1: 3.0}
    found = group_rewards([0, 1], comparisons, traits([0, 0], [0, 0], [0, 0]), both)
    assert found.components[0] == {"judge": 4.0, "reasoning_bonus": 0.0, "answer_bonus": 0.0}


def test_every_answer_of_every_judge_counts_alike() -> None:
    comparisons = [of(0, 1, 5, 1, 1), of(0, 1, 4, 2, 2, judge=1), of(1, 0, 3, 3, 1, judge=2)]
    found = group_rewards([1, 0], comparisons, same_traits(2), PLAIN)
    assert found.rewards == near({0: (5 + 4 + 3 - 2.5) / 3, 1: (1 + 2 + 3 + 2.5) / 3})
    assert found.components == {member: {"judge": reward} for member, reward in found.rewards.items()}


def test_the_tie_break_is_the_scale_s_middle_whatever_the_default() -> None:
    found = group_rewards([0, 1], [of(0, 1, 3, 3, 3)], same_traits(2), RewardSettings(default_ranking=2.0))
    assert found.rewards == {0: 3.5, 1: 2.5}


@pytest.mark.parametrize("method", ["simple_tiebreaker", "bradley_terry"])
def test_a_group_of_one_has_the_default_and_nothing_else(method: str) -> None:
    alone = STAGE_3.model_copy(update={"aggregator_method": method, "default_score": 2.0})
    found = group_rewards([3], [], {3: same_traits(1)[0]}, alone)
    assert found == ({3: 2.0}, {3: {"judge": 2.0}}, 0)


def test_comparisons_with_one_who_gets_no_reward_count_for_the_other() -> None:
    comparisons = [of(0, 1, 4, 2, 2), of(1, 2, 1, 5, 6), of(2, 0, 3, 2, 2)]
    found = group_rewards([0, 2], comparisons, same_traits(3), PLAIN)
    assert found.rewards == {0: 3.0, 2: 4.0}
    assert group_rewards([0], comparisons, same_traits(3), PLAIN).rewards == {0: 3.0}


@pytest.mark.parametrize("method", ["simple_tiebreaker", "bradley_terry"])
@pytest.mark.parametrize(
    ("members", "comparisons", "message"),
    [
        ([0, 1, 2], [of(0, 1, 4, 2, 2)], r"members \[2\] were compared with nobody"),
        ([2], [of(0, 1, 4, 2, 2)], r"members \[2\] were compared with nobody"),
        ([0, 1, 0], [of(0, 1, 4, 2, 2)], "each once"),
        ([], [], "at least one"),
        ([0, 9], [of(0, 9, 4, 2, 2)], r"members \[9\] have no traits"),
    ],
)
def test_no_neutral_score_stands_in(
    method: str, members: list[int], comparisons: list[PairComparison], message: str
) -> None:
    settings = PLAIN.model_copy(update={"aggregator_method": method})
    with pytest.raises(ValueError, match=message):
        group_rewards(members, comparisons, same_traits(3), settings)


@given(st.data())
def test_components_sum_to_the_reward_in_any_order_of_comparisons(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    score, ranking = st.integers(1, 5), st.sampled_from([1, 2, 3, 3.5, 4, 5, 6])
    ring = [of(i, (i + 1) % size, *data.draw(st.tuples(score, score, ranking))) for i in range(size)]
    lengths = st.lists(st.integers(0, 900), min_size=size, max_size=size)
    group = traits(data.draw(lengths), data.draw(lengths), [n / 1000 for n in data.draw(lengths)])
    method = data.draw(st.sampled_from(["simple_tiebreaker", "bradley_terry"]))
    settings = STAGE_3.model_copy(update={"aggregator_method": method})

    found = group_rewards(range(size), ring, group, settings)

    for member, parts in found.components.items():
        assert math.fsum(parts.values()) == pytest.approx(found.rewards[member], abs=1e-12)
    for term in ("reasoning_length", "answer_length", "style"):
        assert math.fsum(parts[term] for parts in found.components.values()) == pytest.approx(0, abs=1e-9)
    shuffled = random.Random(size).sample(ring, size)
    assert group_rewards(list(reversed(range(size))), shuffled, group, settings) == found
