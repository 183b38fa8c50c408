"""Claims about calls to roles in other processes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import InfraError
from paddock.training.core.records import Batch
from paddock.training.grpo.processes import Role
from paddock.training.grpo.remote import REPLICAS_TIMEOUT_S, RemotePolicy, RemoteRollouts
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


EMPTY = Batch(step=0, rows=[], masked=[], groups=[], dropped=[])
CALLS: dict[str, Callable[[RemotePolicy, Path], Awaitable[Any]]] = {
    "train": lambda policy, _: policy.train(EMPTY),
    "send": lambda policy, _: policy.send(1, [], clear_cache=True),
    "save": lambda policy, folder: policy.save(folder),
    "load": lambda policy, folder: policy.load(folder),
    "export": lambda policy, folder: policy.export(folder),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_nor_is_a_policy_that_is_stuck(tmp_path: Path, name: str) -> None:
    async def main() -> float:
        policy = RemotePolicy(Silent("policy", tmp_path / "log", None), timeout_s=90.0)
        with pytest.raises(InfraError, match=f"policy is stuck: it has not ended `{name}` in 90 s") as raised:
            await CALLS[name](policy, tmp_path)
        assert (raised.value.kind, raised.value.retryable) == ("role_stuck", False)
        return now()

    assert virtually(main()) == 90.0
