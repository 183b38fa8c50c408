"""Claims about training through SkyRL's real Tinker server, on a CPU by its JAX backend."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import pytest
import yaml

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("PADDOCK_SKYRL_PYTHON")
BACKEND = {"max_lora_adapters": 8, "max_lora_rank": 32, "train_micro_batch_size": 16, "sample_max_num_sequences": 64}
pytestmark = [
    pytest.mark.trainer,
    pytest.mark.skipif(PYTHON is None, reason="PADDOCK_SKYRL_PYTHON names no interpreter"),
    pytest.mark.timeout(1800),
]


def environment() -> dict[str, str]:
    assert PYTHON is not None
    path = f"{Path(PYTHON).parent}:{os.environ['PATH']}"
    own = {"TINKER_API_KEY": "tml-none", "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **own, "PATH": path, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def run(*words: str | Path) -> str:
    assert PYTHON is not None
    done = subprocess.run([PYTHON, *words], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of a run before a server with the small model of the demonstration."""
    folder = tmp_path_factory.mktemp("tinker")
    run("scripts/train_demo.py", "make", folder / "made", "--small", "--steps", "150")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, model = f"http://127.0.0.1:{port}", str(folder / "made/model")
    given: dict[str, Any] = yaml.safe_load((ROOT / "training/tinker/train_demo.yaml").read_text())
    given |= {"base_url": url, "base_model": model, "rows": str(folder / "made/train.jsonl"), "groups_per_step": 4}
    (folder / "run.yaml").write_text(yaml.safe_dump(given))
    words = ["uv", "run", "--no-project", "--python", str(PYTHON), "-m", "skyrl.tinker.api", "--base-model", model]
    more = ["--backend", "jax", "--backend-config", json.dumps(BACKEND), "--host", "127.0.0.1", "--port", str(port)]
    places = ["--checkpoints-base", str(folder / "checkpoints"), "--database-url", f"sqlite:///{folder}/tinker.db"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*words, *more, *places], env=environment(), stdout=log, stderr=log)
        try:
            _wait_until_up(url, server)
            yield folder / "run.yaml"
        finally:
            server.terminate()
            server.wait(60)


def _wait_until_up(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert server.poll() is None
        try:
            httpx.get(url, timeout=5).raise_for_status()
        except httpx.TransportError:
            time.sleep(1)
        else:
            return
    raise AssertionError("the server did not start")


def test_a_fifth_fails_and_the_others_have_the_log_probs_that_the_server_computes(settings: Path) -> None:
    found = json.loads(run(ROOT / "tests/training/tinker/drive.py", settings).splitlines()[-1])
    groups = [found["members"][first : first + 5] for first in range(0, 20, 5)]
    assert all(sum(reward is None for reward, _ in group) == 1 for group in groups)
    assert {version for group in groups for _, versions in group for version in versions} == {"7"}
    varied = [group for group in groups if len({reward for reward, _ in group if reward is not None}) > 1]
    assert len(found["data"]) == 4 * len(varied) > 0
    for datum in found["data"]:
        trained = [nth for nth, advantage in enumerate(datum["advantages"]) if advantage]
        assert trained
        for nth in trained:
            assert datum["computed"][nth] == pytest.approx(datum["sampled"][nth], abs=1e-4)


@pytest.mark.long
def test_rewards_rise(settings: Path) -> None:
    lines = run("-m", "paddock.training.tinker", settings, "steps=100").splitlines()
    rewards = [json.loads(line)["reward"] for line in lines]
    assert len(rewards) == 100
    # Each mean is of 1,280 rollouts: three standard errors of their difference.
    assert fmean(rewards[-20:]) > fmean(rewards[:20]) + 0.05
