"""Which engine has which weights, and how each that is well gets the newest.

Law     an engine that was started anew has none of what was sent before, whatever it was called. Weights are sent to
        those that lack them, and to nobody twice.
        One that does not take them, though others did, holds nobody back for more than `TRIES`: what it samples has its
        own label, and it is tried again whenever somebody looks.
Errors  while no engine has the weights, what fails for now (a PaddockError that may be retried, engines that don't take
        them, none that is well) is tried again until the deadline; then, or when it can't be retried, it is raised. So
        is what fails for as long whenever somebody looks.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from paddock.errors import InfraError, PaddockError
from paddock.training.grpo.calls import calling
from paddock.training.grpo.roles import Policy, Replica, Rollouts

_log = logging.getLogger("paddock.training")
TRIES = 3


class Brought(NamedTuple):
    """What it took to bring engines up to date."""

    sends: int
    pause_s: float
    """How long engines did not sample, from the first pause asked for to the last that went on."""


class _Weights(NamedTuple):
    started: int
    version: int


class Engines:
    """Of one run."""

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
        self._has: dict[str, _Weights] = {}
        self._failed: Mapping[str, str] = {}
        """Why engines did not take the last weights, by their names."""
        self._failing_since: float | None = None
        """Looks, all of them since then; None: the last went well, or weights were sent since."""

    async def bring(self, version: int) -> Brought:
        """Every engine that is well has the policy's weights, or all but those that refuse them; there is one."""
        deadline = self._clock() + self._deadline_s
        self._failing_since = None
        brought = Brought(0, 0.0)
        tries = 0
        while True:
            tries += 1
            problem: PaddockError
            try:
                found = await self._found()
                brought = await self._send(version, self._behind(found, version), brought)
                behind = self._behind(found, version)
                if found and not behind:
                    return brought
                problem = InfraError(self._says(behind, version), kind="weights_not_sent", stage="send")
                if len(behind) < len(found) and tries >= TRIES:
                    _log.warning("%s; the others go on", problem.message)
                    return brought
            except PaddockError as error:
                if not error.retryable:
                    raise
                problem = error
            if self._clock() >= deadline:
                raise problem
            _log.warning("weights %s were not sent: %s; trying again", version, problem.message)
            await asyncio.sleep(self._retry_s)

    async def look(self, version: int) -> None:
        """Engines that were started anew get the policy's weights; what fails for now is left to the next time."""
        began = self._clock()
        try:
            await self._send(version, self._behind(await self._found(), version), Brought(0, 0.0))
            self._failing_since = None
        except PaddockError as error:
            self._failing_since = began if self._failing_since is None else self._failing_since
            if not error.retryable or self._clock() - self._failing_since >= self._deadline_s:
                raise
            _log.warning("weights %s were not sent again: %s", version, error.message)

    async def _found(self) -> list[Replica]:
        with calling("the rollout worker", "replicas"):
            return await self._rollouts.replicas()

    def _behind(self, found: list[Replica], version: int) -> list[Replica]:
        return [one for one in found if self._has.get(one.name) != _Weights(one.started, version)]

    async def _send(self, version: int, behind: list[Replica], before: Brought) -> Brought:
        if not behind:
            return before
        with calling("the policy", "send"):
            sent = await self._policy.send(version, behind, clear_cache=self._clear_cache)
        self._failed = sent.failed
        for one in behind:
            if one.name in sent.replicas:
                self._has[one.name] = _Weights(one.started, version)
        return Brought(before.sends + 1, before.pause_s + sent.pause_s + sent.send_s + sent.resume_s)

    def _says(self, behind: list[Replica], version: int) -> str:
        if not behind:
            return "no engine is well"
        names = ", ".join(f"{one.name} ({self._failed.get(one.name, 'no reason given')})" for one in behind)
        return f"these engines did not take weights {version}: {names}"
