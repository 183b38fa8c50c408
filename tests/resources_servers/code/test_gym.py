"""Claims about NeMo-Gym's code_gen: the same rewards for 200 programs and more, but where we say why not."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.compat.test_nemo_gym import python
from tests.resources_servers.code.test_server import CALLS, DOUBLES, HONEST, judge, pytestmark, server

from paddock.resources_servers.code import CodeServer, make_rows

__all__ = ["pytestmark", "python", "server"]

VERDICTS = Path(__file__).with_name("gym_verdicts.py")
OURS_ALONE = {
    "import subprocess, sys\nprint(2 * int(subprocess.check_output(['cat'], stdin=sys.stdin)))": "no real stdin there",
}
THEIRS_ALONE = {
    "print(2 * int(input()))\nraise SystemExit(1)": "an exit code does not count there",
    "class Same:\n    def __eq__(self, x):\n        return True\ndef order(numbers):\n    return Same()": "its own ==",
    "print(factorial(3) + 2 * int(input()) - 6)": "names are imported for programs on stdin, too",
}


def pairs() -> list[tuple[dict[str, Any], str]]:
    """Tests and programs: right ones, wrong ones, some that end early, some that do not begin. None does harm, as that
    function has no sandbox."""
    found = [(tests, program) for program, tests in HONEST]
    found += [(CALLS if "order" in program else DOUBLES, program) for program in THEIRS_ALONE]
    for number in range(50):
        made = make_rows.make_row(5, number)
        tests, solution = made["verifier_metadata"]["unit_tests"], made["solution"]
        other = make_rows.make_row(5, number + 1)["solution"]
        found += [
            (tests, solution),
            (tests, solution.replace("1", "2")),
            (tests, f"import sys\nsys.exit(0)\n{solution}"),
            (tests, other if number % 2 else f"{solution}\n)"),
        ]
    return found


def gym_rewards(python: str, pairs: list[tuple[dict[str, Any], str]]) -> list[float]:
    argv = [python, str(VERDICTS)]
    done = subprocess.run(argv, input=json.dumps(pairs), capture_output=True, text=True, check=True)
    rewards: list[float] = json.loads(done.stdout.splitlines()[-2])
    return rewards


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_rewards_are_theirs(python: str, server: CodeServer) -> None:
    given = pairs()
    assert len(given) > 200
    theirs = await asyncio.to_thread(gym_rewards, python, given)
    ours = [verdict.reward for verdict in await asyncio.gather(*(judge(server, code, tests) for tests, code in given))]
    compared = list(zip(given, ours, theirs, strict=True))
    assert {code for (_, code), mine, their in compared if mine > their} == set(OURS_ALONE)
    assert {code for (_, code), mine, their in compared if mine < their} == set(THEIRS_ALONE)
