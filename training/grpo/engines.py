"""Keeps track of the weights of each engine, and sends the newest to every healthy one.

Law     an engine that was restarted has none of the weights that were sent before, also under the same name. Weights
        are sent to the engines that lack them, and to none twice.
        One that does not take them, though others did, delays the run by at most `MAX_TRIES` tries: what it samples is
        labelled with its own version, and it is tried again at each `update_restarted`.
Errors  while no engine has the weights, a failure that may pass (a PaddockError that may be retried, engines that don't
        take them, no healthy engine) is tried again until the deadline; then, or when it can't be retried, it is
        raised. So is a failure of `update_restarted` that lasts as long.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from paddock.errors import InfraError, PaddockError
from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.grpo.calls import role_call
from paddock.training.grpo.roles import Policy, Rollouts

_log = logging.getLogger("paddock.training")
MAX_TRIES = 3


class WeightUpdate(NamedTuple):
    """What it took to send weights to all engines."""

    sends: int
    pause_s: float
    """How long engines did not sample, from the first pause to the last resume."""


class _EngineWeights(NamedTuple):
    n_starts: int
    version: int


class Engines:
    """The engines of one run."""

    def __init__(
        self,
        rollouts: Rollouts,
        policy: Policy,
        *,
        clear_cache: bool,
        deadline_s: float,
        retry_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._rollouts = rollouts
        self._policy = policy
        self._clear_cache = clear_cache
        self._deadline_s = deadline_s
        self._retry_s = retry_s
        self._clock = clock
        self._weights_of: dict[str, _EngineWeights] = {}
        self._failed: Mapping[str, str] = {}
        """Why engines did not take the last weights, by name."""
        self._failing_since: float | None = None
        """Since when every `update_restarted` failed; None: the last one succeeded, or weights were sent since."""

    async def update(self, version: int) -> WeightUpdate:
        """Send the policy's weights, which are `version`, to every healthy engine that lacks them; returns when at
        least one has them and the others have them too or keep refusing."""
        deadline = self._clock() + self._deadline_s
        self._failing_since = None
        weight_update = WeightUpdate(0, 0.0)
        tries = 0
        while True:
            tries += 1
            problem: PaddockError
            try:
                replicas = await self._replicas()
                weight_update = await self._send(version, self._behind(replicas, version), weight_update)
                behind = self._behind(replicas, version)
                if replicas and not behind:
                    return weight_update
                problem = InfraError(self._problem_text(behind, version), kind="weights_not_sent", stage="send")
                if len(behind) < len(replicas) and tries >= MAX_TRIES:
                    _log.warning("%s; the others go on", problem.message)
                    return weight_update
            except PaddockError as error:
                if not error.retryable:
                    raise
                problem = error
            if self._clock() >= deadline:
                raise problem
            _log.warning("weights %s were not sent: %s; trying again", version, problem.message)
            await asyncio.sleep(self._retry_s)

    async def update_restarted(self, version: int) -> None:
        """Send the policy's weights to engines that were restarted; a failure that may pass is left to the next
        call."""
        began = self._clock()
        try:
            await self._send(version, self._behind(await self._replicas(), version), WeightUpdate(0, 0.0))
            self._failing_since = None
        except PaddockError as error:
            self._failing_since = began if self._failing_since is None else self._failing_since
            if not error.retryable or self._clock() - self._failing_since >= self._deadline_s:
                raise
            _log.warning("weights %s were not sent again: %s", version, error.message)

    async def _replicas(self) -> list[ReplicaInfo]:
        with role_call("the rollout worker", "replicas"):
            return await self._rollouts.replicas()

    def _behind(self, replicas: list[ReplicaInfo], version: int) -> list[ReplicaInfo]:
        return [
            replica
            for replica in replicas
            if self._weights_of.get(replica.name) != _EngineWeights(replica.n_starts, version)
        ]

    async def _send(self, version: int, behind: list[ReplicaInfo], before: WeightUpdate) -> WeightUpdate:
        if not behind:
            return before
        with role_call("the policy", "send"):
            sent = await self._policy.send(version, behind, clear_cache=self._clear_cache)
        self._failed = sent.failed
        for replica in behind:
            if replica.name in sent.replicas:
                self._weights_of[replica.name] = _EngineWeights(replica.n_starts, version)
        return WeightUpdate(before.sends + 1, before.pause_s + sent.pause_s + sent.send_s + sent.resume_s)

    def _problem_text(self, behind: list[ReplicaInfo], version: int) -> str:
        if not behind:
            return "no engine is healthy"
        names = ", ".join(f"{replica.name} ({self._failed.get(replica.name, 'no reason given')})" for replica in behind)
        return f"these engines did not take weights {version}: {names}"
