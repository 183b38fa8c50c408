"""A Tinker sampler as an engine function: ids go to the weights that were saved last, ids and log-probs come back.

Version the number of the optimizer's steps before the weights were saved; an answer has one, for each call samples from
        one saved sampler, also where newer weights are saved meanwhile. There are no aborts.
Errors  what the client raises, which fails the call; ValueError for an answer without log-probs.
"""

from collections.abc import Sequence
from typing import Any

from tinker import ModelInput, SamplingParams

from paddock.rollouts import Completion
from paddock.types import JsonObject

SAMPLED = ("temperature", "top_p", "top_k", "seed")
"""Parameters that the API takes under these names, beside `max_tokens` and the tokens that end an answer."""


class PolicySampler:
    """The policy's newest weights as an engine function."""

    def __init__(self, stop_ids: Sequence[int], *, max_tokens: int) -> None:
        """`stop_ids`: tokens that end an answer. `max_tokens`: bound of each, where a call has no smaller one."""
        self._stop_ids = list(stop_ids)
        self._max_tokens = max_tokens
        self._client: Any = None
        self._version = ""

    async def take(self, training: Any, version: int) -> None:
        """Sample from the weights that a training client has now."""
        self._client = await training.save_weights_and_get_sampling_client_async()
        self._version = str(version)

    async def __call__(self, ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        del rollout  # the API has no sessions
        version, asked = self._version, sampling.get("max_tokens")
        params = SamplingParams(
            max_tokens=min(asked, self._max_tokens) if isinstance(asked, int) else self._max_tokens,
            stop=self._stop_ids,
            **{name: sampling[name] for name in SAMPLED if sampling.get(name) is not None},
        )
        answer = await self._client.sample_async(
            prompt=ModelInput.from_ints(ids), num_samples=1, sampling_params=params
        )
        (sequence,) = answer.sequences
        if sequence.logprobs is None:
            raise ValueError("the sampler gave no log-probs")
        return Completion(sequence.tokens, sequence.logprobs, sequence.stop_reason, version)
