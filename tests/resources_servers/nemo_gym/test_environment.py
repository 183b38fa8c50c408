"""Claims about making a server's environment while somebody else is at it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.config.nemo_gym import PYTHON_VARIABLE
from paddock.errors import ConfigError
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.server.nemo_gym import environment


@pytest.fixture
def installing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once an installation has begun, which never ends."""
    began = asyncio.Event()

    async def install(*_: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setattr(environment, "_install", install)
    return began


@pytest.mark.timeout(30)
async def test_who_waits_for_another_gives_up(installing: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    config = NemoGymConfig(server="any")
    first = asyncio.create_task(environment.find_command(config))
    await installing.wait()
    try:
        monkeypatch.setattr(environment, "LOCK_TIMEOUT_S", 0.3, raising=False)
        with pytest.raises(ConfigError, match="another process has been at it"):
            await asyncio.wait_for(environment.find_command(config), 5)
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
