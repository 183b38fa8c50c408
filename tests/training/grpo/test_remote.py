"""Claims about calls to roles in other processes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.errors import InfraError
from paddock.training.core.records import Batch
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.environment import ModelAddress
from paddock.training.grpo.placement import ClusterNode, RoleNeed, RolePlace, place
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.processes import RoleProcess, RoleProcesses
from paddock.training.grpo.remote import (
    REPLICAS_TIMEOUT_S,
    RemoteEngines,
    RemotePolicy,
    start_policy,
    start_samplers,
)
from paddock.training.grpo.testing import now, virtually
from paddock.training.grpo.worker import WorkerSettings


class SilentProcess(RoleProcess):
    """Its process is there, and says nothing."""

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        await asyncio.Event().wait()

    async def free_port(self, address: str) -> int:
        return 9

    async def make(self, make: Callable[..., Awaitable[Any]], *args: Any) -> None:
        await asyncio.Event().wait()


class SilentProcesses(RoleProcesses):
    """Starts none but silent ones."""

    def start(self, name: str, place: RolePlace | None = None, *, env: Mapping[str, str] | None = None) -> RoleProcess:
        return SilentProcess(name, Path("log"), None)


def test_a_model_server_that_is_silent_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def main() -> float:
        silent = SilentProcess("engines", tmp_path / "log", None)
        with pytest.raises(InfraError, match="did not say within 120 s") as raised:
            await RemoteEngines(silent, ModelAddress("http://127.0.0.1:9", "t")).replicas()
        assert raised.value.retryable
        return now()

    assert virtually(main()) == REPLICAS_TIMEOUT_S


EMPTY = Batch(step=0, rows=[], masked=[], groups=[], dropped=[])
CALLS: dict[str, Callable[[RemotePolicy, Path], Awaitable[Any]]] = {
    "train": lambda policy, _: policy.train(EMPTY),
    "send": lambda policy, _: policy.send(1, [], clear_cache=True),
    "save": lambda policy, folder: policy.save(folder),
    "finish_save": lambda policy, _: policy.finish_save(),
    "load": lambda policy, folder: policy.load(folder),
    "export": lambda policy, folder: policy.export(folder),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_nor_is_a_policy_that_is_stuck(tmp_path: Path, name: str) -> None:
    async def main() -> float:
        policy = RemotePolicy(SilentProcess("policy", tmp_path / "log", None), timeout_s=90.0)
        with pytest.raises(InfraError, match=f"policy is stuck: it has not ended `{name}` in 90 s") as raised:
            await CALLS[name](policy, tmp_path)
        assert (raised.value.kind, raised.value.retryable) == ("role_stuck", False)
        return now()

    assert virtually(main()) == 90.0


@pytest.mark.parametrize("world_size", [1, 2])
def test_nor_is_one_that_never_has_its_model(tmp_path: Path, world_size: int) -> None:
    settings = PolicySettings(policy=PolicyConfig(model_name="model"))
    places = [RolePlace("policy", ClusterNode("m1"))] * world_size

    async def main() -> float:
        with pytest.raises(InfraError, match="policy is stuck: it has not ended `make` in 90 s"):
            await start_policy(SilentProcesses(tmp_path), places, settings, 90.0)
        return now()

    assert virtually(main()) == 90.0


async def test_each_rollout_worker_asks_the_engines_of_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def engines(_: Any, place: RolePlace, *__: Any) -> RemoteEngines:
        return RemoteEngines(SilentProcess(place.role, tmp_path, None), ModelAddress(f"http://{place.node}", "t"))

    async def worker(_: Any, place: RolePlace, *args: Any) -> str:
        address, n_near = args[-2:]
        where = "from elsewhere" if n_near is None else f"from there, one of {n_near}"
        return f"{place.role} asks {address.url} {where}"

    monkeypatch.setattr("paddock.training.grpo.remote.start_engines", engines)
    monkeypatch.setattr("paddock.training.grpo.remote.start_rollouts", worker)
    nodes = [ClusterNode(name, id=name, gpus=1) for name in ("m1", "m2", "m3")]
    needs = [RoleNeed("policy", 1), RoleNeed("engines", 2, gpus=1), RoleNeed("rollouts", 3)]
    started: Any = await start_samplers(
        RoleProcesses(tmp_path), place(needs, nodes), cast("Any", None), WorkerSettings(GrpoSettings(), GroupSettings())
    )
    assert [(sampler.worker, sampler.engines is not None) for sampler in started] == [
        ("rollouts-0 asks http://m1 from elsewhere", True),
        ("rollouts-2 asks http://m1 from elsewhere", False),
        ("rollouts-1 asks http://m2 from there, one of 1", True),
    ]
