"""What policies on torch and on Megatron-core share: one thread that does all work, and the sender of weights.

Law     all work is done in one thread, a call after the other, so that the event loop stays free, and settings of torch
        that belong to a thread hold. Cancelling a call ends its waiting, not its work.
        Of several processes each has its own policy, and every method is called on all of them with the same arguments
        at the same time (`PolicyProcesses` does); rank 0 writes, sends and answers.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from paddock.server.vllm.weights.collectives import Transport
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.server.vllm.weights.sender import WeightSender, vllm_sender
from paddock.training.grpo.policy_settings import PolicySettings, RankInfo
from paddock.training.grpo.sharding import device_of
from paddock.training.grpo.state_writer import StateWriter
from paddock.training.grpo.weight_stream import WeightStream

T = TypeVar("T")


class ThreadedPolicy:
    """A policy that works in one thread. `sender` None: one that sends to vLLM: over NCCL between GPUs, by memory
    that all share on one GPU or one machine, else gloo."""

    def __init__(self, settings: PolicySettings, rank_info: RankInfo, sender: WeightSender | None) -> None:
        self._settings = settings
        self._rank = rank_info.rank
        self._device = device_of(settings.policy.torch_cfg, rank_info)
        self._colocated = settings.policy.generation.colocated.enabled
        self._sender = sender or vllm_sender(
            settings.weights,
            transport=_transport(self._device, colocated=self._colocated),
            device=self._device,
            address=rank_info.master_address,
            colocated=self._colocated,
        )
        self._writer = StateWriter()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="policy", initializer=self._prepare)

    async def finish_save(self) -> None:
        """Wait until the state that `save` took in the background is on the disk. InfraError when the disk refuses."""
        await asyncio.to_thread(self._writer.finish)

    async def stop(self) -> None:
        await self._run(self._end)
        self._thread.shutdown(wait=False)

    def _end(self) -> None:
        """The last work of the thread: end what the policy holds."""
        self._writer.close()
        self._sender.close()

    def _send_stream(
        self, stream: WeightStream, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool
    ) -> SendResult:
        """Rank 0's result; the others take part."""
        if self._rank:
            stream.follow()
            return SendResult(version, (), 0.0, 0.0, 0.0)
        with stream.leading() as source:
            return self._sender.send(version, source, replicas, clear_cache=clear_cache)

    def _make_in_thread(self, make: Callable[[], T]) -> T:
        """The result of `make`, which runs in the thread; waits for it."""
        return self._thread.submit(make).result()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _prepare(self) -> None:
        threads = self._settings.policy.torch_cfg.threads
        if threads is not None and self._device.type == "cpu":
            torch.set_num_threads(threads)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)


def _transport(device: torch.device, *, colocated: bool) -> Transport:
    if device.type == "cuda":
        return "cuda_ipc" if colocated else "nccl"
    return "memory"
