"""Claims about advantages by a critic's values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.training.core.gae import BLOCK, discounted_sums, gae, token_rewards, whitened

FACTORS = st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0])


def plainly(values: list[float], reward: float, gamma: float, lam: float) -> list[float]:
    """From the last token to the first, as in the paper."""
    advantages: list[float] = []
    after, value_after = 0.0, 0.0
    for nth, value in reversed(list(enumerate(values))):
        own_reward = reward if nth == len(values) - 1 else 0.0
        after = own_reward + gamma * value_after - value + gamma * lam * after
        value_after = value
        advantages.append(after)
    return advantages[::-1]


@given(st.integers(0, 3 * BLOCK + 5), st.integers(), st.floats(-2, 2), FACTORS, FACTORS)
def test_advantages_are_those_of_the_recursion(length: int, seed: int, reward: float, gamma: float, lam: float) -> None:
    values = np.random.default_rng(abs(seed)).normal(size=length)
    credits = gae(values, token_rewards(reward, length), gamma=gamma, lam=lam)
    assert credits.advantages == pytest.approx(plainly(values.tolist(), reward, gamma, lam), abs=1e-9)
    assert credits.returns == pytest.approx(credits.advantages + values)


def test_with_lambda_1_the_return_is_the_reward_and_with_0_the_next_value() -> None:
    values = np.array([0.1, 0.5, 0.2], np.float32)
    rewards = token_rewards(1.0, 3)
    assert gae(values, rewards, gamma=1.0, lam=1.0).returns == pytest.approx([1, 1, 1])
    assert gae(values, rewards, gamma=1.0, lam=0.0).returns == pytest.approx([0.5, 0.2, 1])
    apart = gae(values, rewards, gamma=1.0, lam=0.0, lam_returns=1.0)
    assert apart.returns == pytest.approx([1, 1, 1])
    assert apart.advantages == pytest.approx([0.4, -0.3, 0.8])


def test_penalties_are_taken_off_each_token() -> None:
    penalties = np.array([0.1, 0.2, 0.3])
    rewards = token_rewards(1.0, 3, penalties)
    assert rewards == pytest.approx([-0.1, -0.2, 0.7])
    assert penalties.tolist() == [0.1, 0.2, 0.3]
    assert gae(np.zeros(3), rewards, gamma=1.0, lam=1.0).advantages == pytest.approx([0.4, 0.5, 0.7])
    assert token_rewards(1.0, 0).tolist() == []


def test_sums_of_many_blocks() -> None:
    ones = np.ones(10 * BLOCK)
    assert discounted_sums(ones, 1.0).tolist() == list(range(10 * BLOCK, 0, -1))


def test_whitened_advantages_have_mean_0_and_variance_1_over_all_samples() -> None:
    made = whitened([np.array([1.0, 2.0]), np.array([6.0])])
    every = np.concatenate(made)
    assert every.mean() == pytest.approx(0)
    assert every.var(ddof=1) == pytest.approx(1)
    assert [len(own) for own in made] == [2, 1]
    assert whitened([np.array([3.0])])[0].tolist() == [0.0]
    assert whitened([]) == []
