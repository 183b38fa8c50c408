"""Weights for the engines of a rollout client: TRL's `WeightTransferProtocol`, where TRL's own way is not it.

Vllm    to all vLLMs of a model server, by shared memory on one machine, else over gloo, through the same sender as the
        built-in loop's: it pauses engines, labels them with TRL's number of the weights, and resumes them. No GPU and
        no vLLM is needed beside the trainer.
Function where the engine is a function: while weights change it is not called. What samples already goes on; a function
        that can't go on under other weights has to end it as `abort`, and is asked again.
Else    TRL pauses its vLLM server itself, and sends the weights over NCCL: no `weight_transfer` is given.
Errors  InfraError `weights_not_sent` where no vLLM took the weights in `give_up_after_s`. One of several that did not
        is named in a warning, and gets the next ones.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from paddock.errors import InfraError
from paddock.rollouts import RolloutClient
from paddock.rollouts.client import POLICY
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.server.vllm.weights.sender import LOOPBACK, vllm_sender
from paddock.server.vllm.weights.settings import WeightsSettings

NamedTensors = Iterator[tuple[str, Any]]
GIVE_UP_AFTER_S = 600.0
RETRY_S = 1.0
log = logging.getLogger(__name__)


class VllmWeights:
    """Sends weights to the vLLM servers behind a model server `vllm` of the client's config."""

    def __init__(
        self,
        client: RolloutClient,
        *,
        model_server: str = POLICY,
        address: str = LOOPBACK,
        give_up_after_s: float = GIVE_UP_AFTER_S,
    ) -> None:
        """`address`: this machine's, on which vLLM's workers reach it. `give_up_after_s`: while no vLLM takes the
        weights: one that died is started again meanwhile."""
        self.version = 0
        """Number of the weights that were sent last, as TRL counts them: from 1."""
        self._client = client
        self._model_server = model_server
        self._give_up_after_s = give_up_after_s
        self._sender = vllm_sender(WeightsSettings(), transport="memory", device=torch.device("cpu"), address=address)

    def init_weight_transfer(self) -> None:
        return

    def pause(self) -> None:
        """The vLLMs are paused when weights are sent, and go on when they have them."""

    def send_weights(self, iterator: NamedTensors) -> None:
        """Send all; they are held in memory at once."""
        weights = dict(iterator)
        self.version += 1
        deadline = time.monotonic() + self._give_up_after_s
        while True:
            replicas: list[ReplicaInfo] = self._client.replicas(self._model_server)
            sent = self._sender.send(self.version, weights.items, replicas, clear_cache=True)
            if sent.replicas:
                if sent.failed:
                    log.warning("weights %s: %s; the others go on", self.version, _failed_text(sent))
                return
            if time.monotonic() >= deadline:
                text = f"no vLLM of {self._model_server} took weights {self.version}: {_failed_text(sent)}"
                raise InfraError(text, kind="weights_not_sent", retryable=False)
            time.sleep(RETRY_S)

    def resume(self) -> None:
        return

    def destroy(self) -> None:
        """Close the connections; rollouts may go on with what weights there are."""
        self._sender.close()


class FunctionWeights:
    """Sends weights by a function of the trainer's process."""

    def __init__(self, client: RolloutClient, take: Callable[[NamedTensors], None]) -> None:
        """`take`: is given pairs of a name and a tensor, as Hugging Face's files name them, and reads them all."""
        self._client = client
        self._take = take

    def init_weight_transfer(self) -> None:
        return

    def pause(self) -> None:
        self._client.pause()

    def send_weights(self, iterator: NamedTensors) -> None:
        self._take(iterator)

    def resume(self) -> None:
        self._client.resume()

    def destroy(self) -> None:
        """Rollouts may go on with what weights there are."""
        self._client.resume()


def _failed_text(sent: SendResult) -> str:
    return ", ".join(f"{name} ({why})" for name, why in sent.failed.items()) or "none is healthy"
