"""Claims about stored rollouts that worker processes score: what is said of them is what one process says."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.collect.test_workers import workers

from paddock.collect import CollectionResult, Plan
from paddock.collect.reverify import ReverifyReport, reverify
from paddock.collect.worker_spread import WorkerSpread
from paddock.config import Config
from paddock.errors import ConfigError, InfraError

ROOT = Path(__file__).parents[2]
MakeConfig = Callable[..., Config]
N_WRONG = 3


@pytest.fixture
async def folder(
    make_case: Callable[..., Plan],
    run_plan: Callable[..., Awaitable[CollectionResult]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A run of which some rollouts have another answer now."""
    monkeypatch.syspath_prepend(ROOT)
    await run_plan(make_case(12, repeats=2))
    rollouts = tmp_path / "run/rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    for nth in range(N_WRONG):
        changed = orjson.loads(lines[5 * nth])
        changed["answer"] = "no" if changed["answer"] == "yes" else "yes"
        lines[5 * nth] = orjson.dumps(changed) + b"\n"
    rollouts.write_bytes(b"".join(lines))
    return tmp_path / "run"


def with_environment(config: Config, name: str, **block: Any) -> Config:
    """The config with an environment of these tests."""
    tree = yaml.safe_load(config.to_yaml())
    tree["environment"] = {"resources_servers": {f"tests.collect.mortal_environment:{name}": block}}
    return Config.from_yaml(yaml.safe_dump({**tree, "serve": {"restart_wait_s": 0.05}}))


async def scored(config: Config, folder: Path, **spread: Any) -> tuple[ReverifyReport, bytes]:
    report = await reverify(config, folder, concurrency=6, spread=WorkerSpread(**spread))
    assert workers() == []
    return report, report.path.read_bytes()


@pytest.mark.slow
async def test_workers_say_what_one_process_says_also_where_one_dies(
    folder: Path, make_config: MakeConfig, tmp_path: Path
) -> None:
    alone = await scored(make_config(), folder)
    assert len(alone[0].changed) == N_WRONG
    death = tmp_path / "death"
    mortal = with_environment(make_config(), "MortalEnvironment", death=str(death), delay_s=0.02)
    assert await scored(mortal, folder, workers=2) == alone
    assert death.exists()


@pytest.mark.slow
async def test_of_what_there_can_be_only_one_is_started_once(
    folder: Path, make_config: MakeConfig, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    only = with_environment(make_config(), "OnlyEnvironment", starts=str(starts))
    assert await scored(only, folder, workers=3) == await scored(make_config(), folder)
    assert len(starts.read_text().split()) == 1


@pytest.mark.slow
async def test_what_can_not_be_scored_is_said_by_each_worker_as_by_one(folder: Path, make_config: MakeConfig) -> None:
    broken = make_config(environment={"grade": "raise"})
    together, alone = await scored(broken, folder, workers=2), await scored(broken, folder)
    assert together == alone
    assert len(alone[0].failed) == alone[0].n == 24


@pytest.mark.slow
async def test_where_no_worker_can_live_scoring_ends(folder: Path, make_config: MakeConfig) -> None:
    config = yaml.safe_load(with_environment(make_config(), "DeadlyEnvironment").to_yaml())
    config["serve"] = {"restart_wait_s": 0, "max_restarts": 0}
    with pytest.raises(InfraError, match="no worker is left: the last was killed by SIGKILL"):
        await scored(Config.from_yaml(yaml.safe_dump(config)), folder, workers=1 + 1)


async def test_a_config_without_the_agent_s_environment_is_refused_before_a_worker_starts(
    folder: Path, make_config: MakeConfig
) -> None:
    wrong = make_config(environment={"graed": "raise"})
    with pytest.raises(ConfigError, match="graed"):
        await scored(wrong, folder, workers=2)
    assert not (folder / "reverified.jsonl").exists()
