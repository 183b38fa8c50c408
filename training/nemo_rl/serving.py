"""Our servers in the process of NeMo-RL's actor: in a thread, with a loop of their own.

Reason  the actor's own loop also takes tensors apart; a rollout's deadlines, tunnels and heartbeats don't wait for it.
Law     `start` returns when all servers are ready, and leaves nothing when one can't be. `close` ends them, with what
        they started; so does the end of the process.
Errors  ConfigError and InfraError of the start; InfraError `not_started` where nothing was started, as in an actor
        that Ray restarted; the failures that `poll` sees.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.errors import InfraError, PaddockError
from paddock.server.background import Background
from paddock.training.nemo_rl.compose import compose
from paddock.training.nemo_rl.records import Result
from paddock.training.nemo_rl.rollouts import RolloutService, open_rollouts
from paddock.training.nemo_rl.streaming import ResultStream, StatusError
from paddock.types import JsonObject

_log = logging.getLogger(__name__)


class EnvironmentService:
    """The environment's servers, started or not."""

    def __init__(self) -> None:
        self._background: Background[RolloutService] | None = None

    def start(self, given: Mapping[str, Any]) -> None:
        """`given`: NeMo-RL's dictionary, see `compose`."""
        self.close()
        environment = compose(given)
        if environment.notes:
            _log.warning("config keys read other than written:\n  %s", "\n  ".join(map(str, environment.notes)))
        self._background = Background(open_rollouts(environment))

    def poll(self) -> None:
        """Raises when a server has died, or nothing runs."""
        self._running().opened.require_running()

    def run(self, rows: Sequence[JsonObject]) -> ResultStream:
        """Run a rollout for each row: the stream of their results. To be called in a running loop."""
        background = self._running()
        rollouts = background.opened
        try:
            rollouts.require_running()
            requests = rollouts.member_requests(rows)
        except PaddockError as error:
            raise StatusError.of(error) from error
        futures: list[asyncio.Future[Result]] = [background.answer(rollouts.run(request)) for request in requests]
        return ResultStream(rows, futures)

    @property
    def masked(self) -> dict[str, int]:
        """How many results were masked since the start, by reason."""
        return dict(self._running().opened.masked)

    def close(self) -> None:
        background, self._background = self._background, None
        if background is not None:
            background.close()

    def _running(self) -> Background[RolloutService]:
        if self._background is None:
            raise InfraError(
                "no environment runs in this process: it was not started, or this is an actor that Ray restarted after "
                "its process died; a new one has to be started",
                kind="not_started",
                retryable=False,
            )
        if not self._background.is_open:
            raise InfraError("the environment's servers have ended", kind="servers_ended", retryable=False)
        return self._background
