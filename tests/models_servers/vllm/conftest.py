"""An imitation of vLLM's command, which the normal interpreter runs; and a real vLLM, where there is one."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.fake_vllm import FakeVllm

from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fake_vllm(tmp_path: Path) -> FakeVllm:
    return FakeVllm(tmp_path)


class SmallVllm:
    """A random model, and vLLM that serves it."""

    def __init__(self, folder: Path, python: str) -> None:
        self.python = python
        """Interpreter of the environment that has vLLM."""
        self.model = folder / "model"
        self.env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        self._logs = folder / "logs"
        command = [python, str(ROOT / "scripts" / "tiny_model.py"), str(self.model), "--steps", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=self.env)
        assert done.returncode == 0, done.stderr

    @asynccontextmanager
    async def engine(self, **launch: object) -> AsyncIterator[VllmEngine]:
        """Started; gone at the end."""
        limits = {"kv_cache_gib": 1, "max_model_len": 4096, "max_num_seqs": 32}
        cheap = {"dtype": "float32", "enforce_eager": True, "python": self.python, "folder": self._logs}
        config = VllmConfig.model_validate(
            {
                "model": str(self.model),
                "launch": {**limits, **cheap, **launch},
                "api_key": "geheim",
                "health_interval_s": 0.5,
                "health_timeout_s": 30,
                "first_retry_s": 0.1,
            }
        )
        made = VllmEngine(config, name="policy")
        try:
            await made.start()
            yield made
        finally:
            await made.stop()


@pytest.fixture(scope="module")
def small_vllm(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> SmallVllm:
    return SmallVllm(tmp_path_factory.mktemp("vllm"), vllm_python)
