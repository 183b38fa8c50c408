"""`/score_step`: m votes of the judge on one step, each a call of its own.

Votes   vote k of a request with seed s is asked for with the seed `s * 1000 + k`, and says its number in the request's
        metadata, so that none is taken for another; several judges take turns.
Law     a vote that failed, that can't be read or that is late is missing, with its reason: it is never 0, and it is no
        failure of the step. Of all steps at most `max_concurrency` votes are in flight; further ones wait, and
        that is not their time. A caller that has gone takes its votes with it.
Errors  none of the judge's: a step without a vote has the score None. ConfigError, when it is made, for an `extra_body`
        that is no JSON object.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import orjson

from paddock.errors import ConfigError, PaddockError
from paddock.http import PLAIN_RESPONSES, Call, Peer, StepRequest, StepScore
from paddock.resources_servers.genrm.config import StepScoreSettings
from paddock.resources_servers.genrm.steps.prompt import step_prompt
from paddock.resources_servers.genrm.steps.votes import Vote, read_vote
from paddock.types import JsonObject

SEEDS_PER_STEP = 1000
_log = logging.getLogger(__name__)


class StepScorer:
    """Asks the judges of one server for votes on steps."""

    def __init__(self, settings: StepScoreSettings, judges: Callable[[], Sequence[Peer]]) -> None:
        """`judges` is called for each vote and returns at least one."""
        self._settings = settings
        self._judges = judges
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._metadata, self._extra_body = _metadata(settings.responses_create_params)

    async def score(self, request: StepRequest, call: Call) -> StepScore:
        """Ask for the votes on a step; a vote that failed is missing, with its reason."""
        text = step_prompt(request, self._settings)
        numbers = range(self._settings.votes)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._vote(request, text, number, call)) for number in numbers]
        votes = [task.result() for task in tasks]
        return StepScore.of(request.step_id, [vote.value for vote in votes], [vote.missing for vote in votes])

    async def _vote(self, request: StepRequest, text: str, number: int, call: Call) -> Vote:
        judges = self._judges()
        judge = judges[number % len(judges)]
        body = self._body(text, request.seed * SEEDS_PER_STEP + number, number)
        async with self._slots:
            # The judge may be one that never answers: the vote's own clock ends it, whatever the call's does.
            try:
                async with asyncio.timeout(self._settings.vote_timeout_s):
                    reply = await judge.call(PLAIN_RESPONSES, body, Call(deadline=call.deadline))
            except TimeoutError:
                return Vote(None, "late")
            except PaddockError as error:
                return Vote(None, error.kind)
            except Exception as error:  # noqa: BLE001 - a vote that broke is a missing one, as any that failed
                _log.exception("a vote on step %s failed", request.step_id)
                return Vote(None, type(error).__name__)
        return read_vote(reply)

    def _body(self, text: str, seed: int, number: int) -> JsonObject:
        extra = orjson.dumps({**self._extra_body, "seed": seed}).decode()
        metadata = {**self._metadata, "extra_body": extra, "vote": str(number)}
        params = self._settings.responses_create_params
        return {**params, "input": [{"role": "user", "content": text}], "metadata": metadata}


class _Metadata(NamedTuple):
    own: JsonObject
    extra_body: JsonObject


def _metadata(params: JsonObject) -> _Metadata:
    """Split the config's metadata from the `extra_body` in it; ConfigError where that is no JSON object."""
    metadata = dict(params.get("metadata") or {})
    given = metadata.pop("extra_body", "{}")
    try:
        extra = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError:
        extra = None
    if not isinstance(extra, dict):
        raise ConfigError(
            f"step_score: responses_create_params.metadata.extra_body: needs a JSON object, got {given!r}",
            kind="extra_body_invalid",
        )
    return _Metadata(metadata, extra)
