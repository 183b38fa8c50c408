"""Asks a model server whether two actions do the same: in both orders, until there is an answer or it has failed.

Law     "different" in the first order decides, and the second is not asked for. "same" needs both.
Request `POST /v1/responses`; from the second try of a question on, `metadata.try` says which, so that no cache gives an
        unusable answer again.
Errors  InfraError: `judge_unusable` where answers could not be read, `judge_down` where there was none in `timeout_s`
        or the judge failed, `judge_refused` (not retryable) where it will not take the request.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from paddock.errors import BugError, InfraError, PaddockError, boundary
from paddock.http import PLAIN_RESPONSES, Call, ModelReply, Peer
from paddock.resources_servers.pivot.judge.options import JudgeOptions
from paddock.resources_servers.pivot.judge.prompt import (
    Answer,
    action_text,
    addresses_a_judge,
    context_text,
    judge_prompt,
    read_answer,
)
from paddock.resources_servers.pivot.semantic.undecided import UndecidedPair
from paddock.types import JsonObject
from paddock.types.responses import messages


class JudgeOpinion(NamedTuple):
    """What the judge said of one pair."""

    answers: tuple[Answer, ...] = ()
    """Of the order expert, policy; then of the other one. Empty: it was not asked."""
    calls: int = 0
    """Requests that were answered, unusable answers too."""

    @property
    def same(self) -> bool:
        return self.answers == ("same", "same")


class EquivalenceJudge:
    """The judge of one pivot server."""

    def __init__(self, options: JudgeOptions, peer: Callable[[], Peer]) -> None:
        self._options = options
        self._peer = peer
        self._turns = asyncio.Semaphore(options.max_concurrency)

    async def judge(self, pair: UndecidedPair, params: JsonObject) -> JudgeOpinion:
        """Have a pair judged. Not asked: one too long, alike but for comments, or whose action speaks to a judge."""
        most_chars = self._options.max_action_chars
        own, other = [await asyncio.to_thread(action_text, action, most_chars) for action in pair]
        context = context_text(params, self._options.max_context_chars)
        if own is None or other is None or own == other or addresses_a_judge(other, own + context):
            return JudgeOpinion()
        async with self._turns:
            try:
                async with asyncio.timeout(self._options.timeout_s):
                    first = await self._ask(judge_prompt(context, own, other))
                    if first.answers == ("different",):
                        return first
                    second = await self._ask(judge_prompt(context, other, own))
            except TimeoutError as error:
                raise InfraError(
                    f"the judge gave no answer in {self._options.timeout_s:g} s", kind="judge_down", stage="verify"
                ) from error
        return JudgeOpinion(first.answers + second.answers, first.calls + second.calls)

    async def _ask(self, text: str) -> JudgeOpinion:
        options = self._options
        last = ""
        for attempt in range(options.max_unusable + 1):
            body = {
                **options.responses_create_params,
                "max_output_tokens": options.max_output_tokens,
                "input": [{"role": "user", "content": text}],
            }
            if attempt:
                body["metadata"] = {**(body.get("metadata") or {}), "try": str(attempt)}
            reply = await self._call(body)
            answer = read_answer(reply)
            if answer is not None:
                return JudgeOpinion((answer,), attempt + 1)
            last = "\n".join(messages(reply))[:200]
        raise InfraError(
            f"the judge gave no usable answer in {options.max_unusable + 1} tries; the last: {last!r}",
            kind="judge_unusable",
            stage="verify",
        )

    async def _call(self, body: JsonObject) -> ModelReply:
        peer = self._peer()
        try:
            with boundary(BugError, f"{peer.name}: judge"):
                return await peer.call(PLAIN_RESPONSES, body, Call().within(self._options.timeout_s))
        except PaddockError as error:
            kind = "judge_down" if error.retryable else "judge_refused"
            raise InfraError(
                f"the judge failed: {error.message}", kind=kind, stage="verify", retryable=error.retryable
            ) from error
