"""Claims about NeMo-Gym's math_with_judge without its judge: the same rewards, but where we say why not."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from tests.compat.test_nemo_gym import python
from tests.resources_servers.math.test_server import DIFFERENT, EQUAL, HEDGES, judge

from paddock.resources_servers.math import MathServer, make_rows
from paddock.resources_servers.math.server import MathConfig

__all__ = ["python"]

VERDICTS = Path(__file__).with_name("gym_verdicts.py")
OURS_ALONE = {
    ("50", "So it is $\\boxed{50\\%}$."): "their math-verify is 0.8.0, which takes a percentage for its fraction alone",
    ("1000", "So it is $\\boxed{1\\,000}$."): "a thin space between thousands is read",
}
THEIRS_ALONE = {
    ("5\\text{ m}", "\\boxed{5\\text{ km}}"): "units are dropped there",
    ("5\\text{ m}^2", "\\boxed{5\\text{ m}^3}"): "units are dropped there",
    ("2", "\\boxed{1 \\boxed{2}}"): "the inner box alone is read there",
    ("2", "\\boxed{1 \\\\ 2}"): "any number in what can't be read is taken there",
    ("\\frac{1}{2}", "\\boxed{????? \\frac{1}{2}}"): "any fraction in what can't be read is taken there",
}


def pairs() -> list[tuple[str, str]]:
    """Expected answers and texts: all forms that the other tests have, and answers to rows of our own."""
    found = [(str(expected), f"So it is $\\boxed{{{answer}}}$.") for expected, answer in EQUAL]
    found += [(str(expected), f"\\boxed{{{answer}}}") for expected, answer in DIFFERENT]
    found += HEDGES
    for number in range(200):
        expected = make_rows.make_row(3, number)["expected_answer"]
        other = make_rows.make_row(3, number + 10)["expected_answer"]
        found.append((expected, f"We compute.\n\nThe answer is $\\boxed{{{expected if number % 3 else other}}}$."))
        found.append((expected, f"The answer is ${expected}$."))
    return found


def gym_rewards(python: str, pairs: list[tuple[str, str]]) -> list[float]:
    argv = [python, str(VERDICTS), "alone"]
    done = subprocess.run(argv, input=json.dumps(pairs), capture_output=True, text=True, check=True)
    rewards: list[float] = json.loads(done.stdout.splitlines()[-2])
    return rewards


@pytest.mark.long
async def test_rewards_are_theirs(python: str) -> None:
    given = pairs()
    theirs = await asyncio.to_thread(gym_rewards, python, given)
    server = MathServer(MathConfig(evaluated=False), name="math", peers={})
    await server.start()
    try:
        ours = [(await judge(server, expected, text)).reward for expected, text in given]
    finally:
        await server.stop()
    assert len(given) > 400
    assert {pair for pair, mine, their in zip(given, ours, theirs, strict=True) if mine > their} == set(OURS_ALONE)
    assert {pair for pair, mine, their in zip(given, ours, theirs, strict=True) if mine < their} == set(THEIRS_ALONE)
