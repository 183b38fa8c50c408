"""`POST /compare`: responses to one conversation compared with each other, without a group and without state.

Names   `rewards`, `comparison_results` and the metrics `mean_individual_score`, `std_individual_score` (of all scores
        as the judges gave them; the deviation divides by their number), `tiebreak_usage_rate`: NeMo-Gym's. Beside them
        the judges' quality.
Bounds  as many responses as a group may have members (`GenrmConfig.max_group_size`), else RequestError.
Errors  a comparison that fails fails the call (VerifierError, 502), and the others end: no score stands in for it.
"""

import asyncio
from collections.abc import Sequence
from statistics import fmean, pstdev

from pydantic import ValidationError

from paddock.errors import BugError, PaddockError, RequestError, describe
from paddock.http import Route, require_response
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.plan import ComparisonPlan, Question, plan_comparisons
from paddock.resources_servers.genrm.groups.progress import comparison_of
from paddock.resources_servers.genrm.groups.records import GroupJudgement
from paddock.resources_servers.genrm.judging.judges import GroupPrompt, Judges
from paddock.resources_servers.genrm.records import Candidate, PairComparison, on_wire
from paddock.resources_servers.genrm.verdicts import GroupResult
from paddock.types import JsonObject, Record
from paddock.types.records import Finite


class CompareRequest(Record):
    conversation_history: list[JsonObject]
    """What the responses answer: messages, or any items of a Responses request's `input`."""
    response_objs: list[JsonObject]
    """Responses API response objects."""
    principle: str | None = None
    """What the judge is to go by, where the config says `use_principle`; None: its `default_principle`."""


class CompareReply(Record):
    rewards: list[Finite]
    """In the order of `response_objs`."""
    comparison_results: list[PairComparison]
    metrics: dict[str, Finite]


def _read_request(wire: JsonObject) -> CompareRequest:
    try:
        request = CompareRequest.model_validate(wire)
    except ValidationError as error:
        raise RequestError(describe(error), kind="request_invalid") from error
    for nth, response in enumerate(request.response_objs):
        require_response(response, f"response_objs.{nth}")
    return request


def _read_reply(_request: CompareRequest, wire: JsonObject) -> CompareReply:
    try:
        return CompareReply.model_validate(wire)
    except ValidationError as error:
        raise BugError(f"reply is no CompareReply: {describe(error)}", kind="reply_invalid") from error


COMPARE: Route[CompareRequest, CompareReply] = Route(
    "POST",
    "/compare",
    "Compare responses to one conversation in pairs",
    lambda request: request.model_dump(exclude_none=True),
    _read_request,
    lambda _request, reply: {**reply.model_dump(), "comparison_results": list(map(on_wire, reply.comparison_results))},
    _read_reply,
    long=True,
    request_type=CompareRequest,
    reply_type=CompareReply,
)


async def compare_responses(
    config: GenrmConfig, judges: Judges, prompt: GroupPrompt, candidates: Sequence[Candidate]
) -> CompareReply:
    """Compare the candidates with each other; RequestError for too many of them, VerifierError for a failed judge."""
    if len(candidates) > config.max_group_size:
        raise RequestError(
            f"response_objs: {len(candidates)} of them; at most {config.max_group_size} are compared", kind="too_many"
        )
    if len(candidates) < 2:
        rewards = [config.default_score for _ in candidates]
        return CompareReply(rewards=rewards, comparison_results=[], metrics={})
    comparisons = await _all_comparisons(config, judges, prompt, candidates)
    traits = {number: candidate.traits for number, candidate in enumerate(candidates)}
    result = GroupResult(GroupJudgement(group="", members=traits, comparisons=comparisons), config)
    scores = [score for comparison in comparisons for score in (comparison.score_1, comparison.score_2)]
    return CompareReply(
        rewards=[result.rewards.rewards[number] for number in range(len(candidates))],
        comparison_results=comparisons,
        metrics={
            "mean_individual_score": fmean(scores),
            "std_individual_score": pstdev(scores),
            "tiebreak_usage_rate": result.rewards.tiebreaks / len(comparisons),
            **result.quality.as_metrics(),
        },
    )


async def _all_comparisons(
    config: GenrmConfig, judges: Judges, prompt: GroupPrompt, candidates: Sequence[Candidate]
) -> list[PairComparison]:
    answered: dict[Question, PairComparison] = {}

    async def ask(question: Question) -> None:
        first, second = candidates[question.first].text, candidates[question.second].text
        scores = await judges.compare(prompt, first, second, question.judge_idx)
        comparison = comparison_of(question, scores)
        assert comparison is not None  # it did not fail
        answered[question] = comparison

    while missing := [
        question for question in _plan_comparisons(config, candidates, answered).questions if question not in answered
    ]:
        try:
            async with asyncio.TaskGroup() as group:
                for question in missing:
                    group.create_task(ask(question))
        except ExceptionGroup as errors:
            # Not `except*`: what is raised in it comes out in a group again on Python 3.11.2.
            raise _first(errors.subgroup(PaddockError) or errors) from None
    return [answered[question] for question in _plan_comparisons(config, candidates, answered).questions]


def _plan_comparisons(
    config: GenrmConfig, candidates: Sequence[Candidate], answered: dict[Question, PairComparison]
) -> ComparisonPlan:
    count = len(candidates)
    return plan_comparisons(config, range(count), count, complete=True, answered=answered.get)


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
