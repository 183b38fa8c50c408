"""Claims about calls to roles in other processes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import InfraError
from paddock.training.grpo.processes import Role
from paddock.training.grpo.remote import REPLICAS_TIMEOUT_S, RemoteRollouts
from paddock.training.grpo.testing import now, virtually


class Silent(Role):
    """Its process is there, and says nothing."""

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        await asyncio.Event().wait()


def test_a_worker_that_is_silent_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def main() -> float:
        with pytest.raises(InfraError, match="did not say within 120 s") as raised:
            await RemoteRollouts(Silent("rollouts", tmp_path / "log", None)).replicas()
        assert raised.value.retryable
        return now()

    assert virtually(main()) == REPLICAS_TIMEOUT_S
