"""Weights for an engine that is a function: TRL's `WeightTransferProtocol` over a rollout client.

Law     while weights change, no engine function is called: `pause` and `resume` are the client's. What samples already
        goes on; a function that can't go on under other weights has to end it as `abort`, and is asked again.
Else    vLLM needs none of this: without `weight_transfer`, TRL pauses its vLLM server itself, and sends the weights.
"""

from collections.abc import Callable, Iterator
from typing import Any

from paddock.rollouts import RolloutClient

NamedTensors = Iterator[tuple[str, Any]]


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
