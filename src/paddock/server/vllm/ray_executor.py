"""vLLM's own Ray executor, over nodes that are placed already: each rank in the bundle that was reserved for it.

Source  vLLM 0.32, `v1/executor/ray_executor_v2.py`. By itself it takes the placement group of the Ray actor that it is
        in, and a server of ours is in none, being a child process: the group comes in a variable, and the order of its
        bundles in vLLM's own VLLM_RAY_BUNDLE_INDICES.
Law     each worker listens on its node's address in the cluster. A worker is an actor of the engine's own job: it ends
        with the engine, however that ends.
CPU     three defects of vLLM 0.32 are made up for. It has no name for a CPU among Ray's resources, and refuses it for
        that alone: workers take none. It takes ranks of several machines for ranks that share memory. Without
        compilation it runs no first batch, in which later stages make the tensors that they receive into.
Errors  those of vLLM.
"""

import os
import tempfile
from importlib import import_module
from typing import Any

import ray
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup
from vllm.distributed import get_pp_group
from vllm.platforms import current_platform
from vllm.v1.executor.ray_executor_v2 import RayExecutorV2, RayWorkerProc

from paddock.server.vllm.launch_settings import GROUP_VARIABLE


class NodeWorker(RayWorkerProc):  # type: ignore[misc]
    """A rank of vLLM on its node."""

    def get_node_and_physical_gpu_ids(self) -> tuple[str, list[int]]:
        if current_platform.ray_device_key:
            found: tuple[str, list[int]] = super().get_node_and_physical_gpu_ids()
            return found
        return ray.get_runtime_context().get_node_id(), []

    def initialize_worker(
        self, local_rank: int, env_vars: dict[str, str], distributed_init_method: str, *args: Any, **kwargs: Any
    ) -> None:
        own = ray.util.get_node_ip_address()
        os.environ.setdefault("TMPDIR", tempfile.gettempdir())  # the engine's own is on its machine
        # Else it asks for the way to an address of the internet, which a closed network has not.
        os.environ["VLLM_HOST_IP"] = own
        if current_platform.is_cpu():
            # Ranks whose rendezvous ends in the same are taken for ranks of one machine, which share memory.
            distributed_init_method += f"?node={own}"
        super().initialize_worker(local_rank, env_vars, distributed_init_method, *args, **kwargs)


class PlacedRayExecutor(RayExecutorV2):  # type: ignore[misc]
    """The executor of one replica, in a placement group of others."""

    def _init_executor(self) -> None:
        ray.init()
        group = PlacementGroup(PlacementGroupID.from_hex(os.environ[GROUP_VARIABLE]))
        self.parallel_config.placement_group = group
        os.environ["VLLM_RAY_BUNDLE_INDICES"] = ",".join(map(str, range(len(group.bundle_specs))))
        module: Any = import_module(RayExecutorV2.__module__)
        module.RayWorkerProc = NodeWorker
        if not current_platform.ray_device_key:
            module.initialize_ray_cluster = _nothing
        super()._init_executor()
        if current_platform.is_cpu():
            self.collective_rpc(_make_received_tensors)

    @staticmethod
    def _get_actor_resource_kwargs() -> dict[str, Any]:
        if not current_platform.ray_device_key:
            return {"num_gpus": 0}
        needed: dict[str, Any] = RayExecutorV2._get_actor_resource_kwargs()
        return needed


def _make_received_tensors(worker: Any) -> None:
    runner = worker.model_runner
    if not get_pp_group().is_first_rank and runner.intermediate_tensors is None:
        runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
            batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
        )


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """There is a cluster and a placement group."""
