"""One comparison by a judge: asked until there is a usable answer, or it has failed.

Request `POST /v1/responses`: `input` is the conversation, `metadata` has `response_1`, `response_2`, where there is
        one the `principle`, where a pair is asked several times `judge_idx`, and from the second on the number of the
        `try`: so that no cache gives an unusable answer again. All values are strings, as the API has it.
Errors  VerifierError: `judge_unusable` when each answer was cut or could not be read, `judge_down` when what may pass
        did not within `comparison_timeout_s`, `judge_refused` (not retryable) when the judge will not take the request.
Bounds  `max_concurrency` comparisons of a server at once; the time of one begins when it is its turn.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from paddock.errors import BugError, PaddockError, VerifierError, boundary
from paddock.http import PLAIN_RESPONSES, Call, ModelReply, Peer
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.records import JudgeScores
from paddock.resources_servers.genrm.scoring.parsing import read_scores
from paddock.types import JsonObject
from paddock.types.responses import is_complete, messages

MAX_OUTAGE_WAIT_S = 30.0


class GroupPrompt(NamedTuple):
    """The conversation that all members of a group answer."""

    history: list[JsonObject]
    principle: str | None
    """What the judge is to go by; None: it decides for itself."""


class Judges:
    """The judges of one server, asked at most `max_concurrency` at once."""

    def __init__(self, config: GenrmConfig, peers: Mapping[str, Peer]) -> None:
        self._config = config
        self._peers = peers
        self._turns = asyncio.Semaphore(config.max_concurrency)

    async def compare(self, prompt: GroupPrompt, first: str, second: str, judge_idx: int) -> JudgeScores:
        """Have two texts compared, in the order in which the judge is to see them; VerifierError as above."""
        config = self._config
        async with self._turns:
            call = Call().within(config.comparison_timeout_s)
            wait_s = config.outage_retry_s
            unusable = 0
            while True:
                try:
                    reply = await self._ask(self._body(prompt, first, second, judge_idx, unusable), judge_idx, call)
                except PaddockError as error:
                    _require_retry(error, wait_s, call)
                    await asyncio.sleep(wait_s)
                    wait_s = min(2.0 * wait_s, MAX_OUTAGE_WAIT_S)
                    continue
                text = "\n".join(messages(reply))
                scores = read_scores(text, default_score=config.default_score, default_ranking=config.default_ranking)
                # What a judge wrote before it was cut may be a draft of its thoughts.
                if scores is not None and is_complete(reply):
                    return scores
                unusable += 1
                if unusable > config.genrm_parse_retries:
                    raise VerifierError(
                        f"the judge gave no usable answer in {unusable} tries; the last: {text[:200]!r}",
                        kind="judge_unusable",
                    )
                await asyncio.sleep(config.genrm_parse_retry_sleep_s)

    async def _ask(self, body: JsonObject, judge_idx: int, call: Call) -> ModelReply:
        judges = self._config.judges
        peer = self._peers[judges[judge_idx % len(judges)].name]
        with boundary(BugError, f"{peer.name}: comparison"):
            return await peer.call(PLAIN_RESPONSES, body, call)

    def _body(self, prompt: GroupPrompt, first: str, second: str, judge_idx: int, unusable: int) -> JsonObject:
        params = self._config.genrm_responses_create_params
        metadata = {**(params.get("metadata") or {}), "response_1": first, "response_2": second}
        if prompt.principle is not None:
            metadata["principle"] = prompt.principle
        if self._config.num_judges_per_comparison > 1:
            metadata["judge_idx"] = str(judge_idx)
        if unusable:
            metadata["try"] = str(unusable)
        before = params.get("input") or []
        opening = [{"role": "user", "content": before}] if isinstance(before, str) else before
        return {**params, "input": [*opening, *prompt.history], "metadata": metadata}


def _require_retry(error: PaddockError, wait_s: float, call: Call) -> None:
    """Raise the comparison's failure, unless there is time to try again."""
    if not error.retryable:
        raise VerifierError(f"the judge refused: {error.message}", kind="judge_refused", retryable=False) from error
    if call.remaining_s is not None and call.remaining_s <= wait_s:
        raise VerifierError(f"the judge stayed down: {error.message}", kind="judge_down") from error
