"""Held against Harbor's own runner: 220 tasks whose tests leave rewards of every form, each with equal rewards."""

import asyncio
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.types import Rollout

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

VARIABLE = "PADDOCK_HARBOR_PYTHON"
N_TASKS = 220
AT_ONCE = 4
JSON_FORMS = (
    '{"reward": %s}',
    '{"reward": %s, "speed": 3}',
    '{"speed": %s}',
    '{"a": %s, "b": 2}',
    '{"reward": true, "x": %s}',
    '{"reward": "%s"}',
    '{"reward": [%s]}',
    '{"reward": %s, "reward": 0.5}',
    '{"reward": {"x": %s}}',
    "%s",
    "[%s]",
)
JSON_TEXTS = (
    *("", "{}", "{", "null", "true", '"1"', '{"reward": null}', '{"reward": NaN}', '{"reward": Infinity}'),
    *(
        '{"reward": 1e999}',
        '{"reward": -1e999, "a": 1}',
        '{"reward": false}',
        '\ufeff{"reward": 1}',
        ' {"reward": 1}\n\n',
    ),
)
TEXTS = (
    *(
        "",
        "\n",
        " 1 \n",
        "one",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1_000",
        "1e400",
        "-0.0",
        "+1",
        "0x10",
        "1,5",
        "1 2",
        "True",
    ),
    *("\u0661", "1\r\n", "1.\n", ".5", "1e-320", "\ufeff1", "99999999999999999999", "null"),
)
BYTES = (b"\xff1", b'{"re\xffward": 1}', b"1\x00")


class RewardCase(NamedTuple):
    """What the tests of a task leave."""

    text: bytes | None
    json: bytes | None
    exit_code: int
    needs_solution: bool
    """The files are left only where the solution was played; it is played."""


def cases() -> Iterator[RewardCase]:
    draw = random.Random(25)
    files: list[tuple[bytes | None, bytes | None]] = [(None, None)]
    files += [(text.encode(), None) for text in TEXTS]
    files += [(None, text.encode()) for text in JSON_TEXTS]
    files += [(data, None) for data in BYTES] + [(None, data) for data in BYTES]
    files += [(b"0.25", text.encode()) for text in JSON_TEXTS]
    while len(files) < N_TASKS:
        number = draw.choice([str(draw.randint(-9, 9)), repr(draw.uniform(-2, 2)), f"{draw.uniform(0, 1):.3e}"])
        form = draw.choice(JSON_FORMS)
        json_file = (form % number).encode() if draw.random() < 0.6 else None
        text_file = number.encode() if json_file is None or draw.random() < 0.3 else None
        files.append((text_file, json_file))
    for text, json_file in files[:N_TASKS]:
        yield RewardCase(text, json_file, draw.choice([0, 0, 1, 3]), draw.random() < 0.5)


@pytest.fixture(scope="module")
def harbor_python() -> str:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE}: no interpreter of an environment with harbor 0.25 (docs/environments.md)")
    return python


def write(make_task: Any, number: int, case: RewardCase) -> Path:
    lines = ["#!/bin/bash"]
    files = [("reward.txt", case.text), ("reward.json", case.json)]
    for name, data in files:
        if data is not None:
            guard = "[ ! -e /app/solved ] || " if case.needs_solution else ""
            lines.append(f"{guard}cp /tests/{name} /logs/verifier/{name}")
    folder: Path = make_task(
        f"case-{number}",
        **{
            "tests/test.sh": "\n".join([*lines, f"exit {case.exit_code}", ""]),
            "solution/solve.sh": "#!/bin/bash\necho $WORD > /app/solved\n",
        },
    )
    toml = (folder / "task.toml").read_text().replace('artifacts = ["/app/hello.txt"]', 'artifacts = ["/app/solved"]')
    (folder / "task.toml").write_text(f'{toml}\n[solution.env]\nWORD = "yes"\n')
    for name, data in files:
        if data is not None:
            (folder / "tests" / name).write_bytes(data)
    return folder


def theirs(python: str, tasks: Path, jobs: Path) -> dict[str, dict[str, float] | None]:
    """Rewards by task, as Harbor's runner has them; None: it has none, but an exception."""
    words = ["run", "-p", str(tasks), "-a", "oracle", "--jobs-dir", str(jobs), "-n", str(AT_ONCE), "--quiet"]
    words += ["--environment-import-path", "bubblewrap_environment:BubblewrapEnvironment"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    program = Path(python).with_name("harbor")
    subprocess.run([program, *words], env=env, check=True, capture_output=True, timeout=600)
    found: dict[str, dict[str, float] | None] = {}
    for path in jobs.glob("*/*/result.json"):
        result = json.loads(path.read_text())
        verdict = result.get("verifier_result")
        assert (verdict is None) == (result["exception_info"] is not None), result["exception_info"]
        found[result["task_name"]] = verdict["rewards"] if verdict else None
    return found


def chosen(rewards: dict[str, float] | None) -> float | None:
    """The single reward of several numbers; None: there is none, or none is chosen."""
    if not rewards:
        return None
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)


@pytest.mark.parametrize(("isolation", "step"), [("fresh", 1), ("shared", 4)])
async def test_rewards_are_those_of_harbors_own_runner(
    harbor_python: str, standing: Any, make_task: Any, tmp_path: Path, isolation: str, step: int
) -> None:
    folders = [write(make_task, number, case) for number, case in enumerate(cases()) if number % step == 0]
    expected = await asyncio.to_thread(theirs, harbor_python, tmp_path / "tasks", tmp_path / "jobs")
    assert len(expected) == len(folders)
    room = asyncio.Semaphore(AT_ONCE)

    async def run(stand: Any, folder: Path) -> Rollout:
        async with room:
            rollout: Rollout = await stand.run(folder)
            return rollout

    async with standing(harness="gold", isolation=isolation) as stand:
        rollouts = await asyncio.gather(*(run(stand, folder) for folder in folders))
    seen: Counter[str] = Counter()
    for folder, rollout in zip(folders, rollouts, strict=True):
        reward = chosen(expected[folder.name])
        seen["none" if reward is None else "some"] += 1
        assert rollout.reward == reward, (folder.name, expected[folder.name], rollout.failure)
        assert rollout.outcome == ("verifier" if reward is None else "completed")
        if rollout.verdict is not None:
            assert rollout.verdict.extras["rewards"] == expected[folder.name]
    assert min(seen.values()) >= len(folders) // 5, seen
