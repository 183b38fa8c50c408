"""A chat server as NeMo-RL's, for tests that ask for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.training.nemo_rl.trainer import StubTrainer, open_trainer


@pytest.fixture
async def trainer(tmp_path: Path) -> AsyncIterator[StubTrainer]:
    async with open_trainer(tmp_path / "runs") as opened:
        yield opened
