"""The claim that rows whose rollouts last many times as long are trained on, and learned, as well as the rest, in an
asynchronous run: of a task of three turns, and of bugs in a tiny repository, in real sandboxes.
"""

import json
from pathlib import Path

import pytest
from tests.e2e.learning import mender_task, runs, swe
from tests.e2e.learning.slow_rows import SlowRowFigures, slow_row_figures

from paddock.sandbox import SandboxError

ROOMS_STEPS, ROOMS_PAUSE_S = 120, 40.0
MENDER_STEPS = 100
LAST_STEPS = 25
SLOW_SHARE = 0.2
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]


def validation(out: Path) -> tuple[float, float]:
    """The mean reward on held-out rows before the first step and after the last."""
    summary = json.loads((out / "summary.json").read_text())
    return summary["validation_first"], summary["validation_last"]


def require_equal_treatment(figures: SlowRowFigures, *, times_longer: float) -> None:
    assert figures.times_longer >= times_longer, figures
    assert figures.share_trained == pytest.approx(SLOW_SHARE, abs=0.02), figures
    assert figures.reward_slow >= figures.reward_others - 0.1, figures
    assert figures.age >= 1, figures


def held_out(folder: Path) -> list[str]:
    return [*runs.data(folder), f"data.validation={{data_path: {folder / 'held_out.jsonl'}}}"]


def test_slow_rows_of_several_turns_are_learned(tmp_path: Path) -> None:
    folder, out = tmp_path / "made", tmp_path / "run"
    runs.call("-m", "tests.e2e.learning.driver", "--make-rooms", folder, "--pause-s", str(ROOMS_PAUSE_S))
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    runs.train(out, "tests/e2e/learning/rooms_slow.yaml", *held_out(folder), f"grpo.max_num_steps={ROOMS_STEPS}")
    before, after = validation(out)
    assert before < 0.3, before
    assert after >= 0.6, after
    slow = {nth for nth, row in enumerate(rows) if row["pause_s"]}
    require_equal_treatment(slow_row_figures(out, slow, last_steps=LAST_STEPS), times_longer=10)


@pytest.mark.sandbox
def test_slow_repositories_are_learned(tmp_path: Path) -> None:
    folder, out = tmp_path / "made", tmp_path / "run"
    try:
        mender_task.put_images(swe.HOME)
    except (FileNotFoundError, SandboxError) as error:
        pytest.skip(str(error))
    runs.call("-m", "tests.e2e.learning.driver", "--make-mender", folder)
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    blocks = ("swe.resources_servers.swe", "agent.agents.swe")
    homes = [f"env.nemo_gym.{block}.sandbox.home={swe.HOME}" for block in blocks]
    runs.train(out, "tests/e2e/learning/mender.yaml", *held_out(folder), *homes, f"grpo.max_num_steps={MENDER_STEPS}")
    before, after = validation(out)
    assert before < 0.3, before
    assert after >= 0.8, after
    slow = {nth for nth, row in enumerate(rows) if row["image"] == mender_task.SLOW_IMAGE}
    require_equal_treatment(slow_row_figures(out, slow, last_steps=LAST_STEPS), times_longer=10)
