"""Asks a model server whether two actions do the same: in both orders, until there is an answer or it has failed.

Law     "different" in the first order decides, and the second is not asked for. "same" needs both.
Errors  InfraError, with the kinds of `paddock.server.model_judge`.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from paddock.errors import InfraError
from paddock.http import Peer
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
from paddock.server.model_judge import JudgeAnswer, ModelJudge
from paddock.types import JsonObject


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

    def __init__(self, options: JudgeOptions, peers: Mapping[str, Peer]) -> None:
        self._options = options
        self._judge = ModelJudge(options, peers, InfraError)

    async def judge(self, pair: UndecidedPair, params: JsonObject) -> JudgeOpinion:
        """Have a pair judged. Not asked: one too long, alike but for comments, or whose action speaks to a judge."""
        most_chars = self._options.max_action_chars
        own, other = [await asyncio.to_thread(action_text, action, most_chars) for action in pair]
        context = context_text(params, self._options.max_context_chars)
        if own is None or other is None or own == other or addresses_a_judge(other, own + context):
            return JudgeOpinion()
        async with self._judge.turn():
            first: JudgeAnswer[Answer] = await self._judge.ask(judge_prompt(context, own, other), read_answer)
            if first.answer == "different":
                return JudgeOpinion((first.answer,), first.calls)
            second: JudgeAnswer[Answer] = await self._judge.ask(judge_prompt(context, other, own), read_answer)
        return JudgeOpinion((first.answer, second.answer), first.calls + second.calls)
