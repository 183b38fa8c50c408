"""The semantic comparator: a response passes when it does what the expert did, whatever it is spelled like.

Reward      matched / max(expected, actual) calls, of the best pairing: 1 for the one call that is the same action.
            Where all that was expected came and none of it is a look, each look beside it costs `surplus_look_cost`,
            and no more than that share leaves.
            Views of one file that go on where another's end count as one call, on both sides.
Surplus     an unmatched call that destroys makes any of these 0. So does, where more calls came than expected, one that
            is not known only to look or to note, or a second guess; where not, one that undoes (see `surplus`).
Guessing    never pays. One call is expected, k calls come. Two of them change something: whichever is right, the other
            is a surplus that takes all. One does: it is right with p and earns at most p; where a look is right, the
            change takes all. None does: they are right with p1 + ... + pk and earn at most 1/k of it, so at most the
            largest. Of n expected calls alike: the best n made alone earn no less. `f1` is not so.
Partial     where `partial_credit` is set and no more calls came than expected, one that is paired with none counts as
            far as the ladder says (`ladder`); one that destroys, or undoes a matched edit, still takes all. Where more
            came there are no rungs, so guesses gain no more than without.
Message     1 when the response is a message, complete, free of calls and near to the expert's, else 0.
Soundness   stated per kind in this folder's modules; what is not known to be the same is not the same.
Errors      none on any JSON: what is malformed, empty or cut matches nothing, and the reason says so.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.assignment import best_assignment
from paddock.resources_servers.pivot.semantic.batches import pair_up
from paddock.resources_servers.pivot.semantic.calls import ParsedCall, RowTools, Sides, count_calls, read_sides
from paddock.resources_servers.pivot.semantic.history import FileHistory
from paddock.resources_servers.pivot.semantic.intents.kinds import Surroundings
from paddock.resources_servers.pivot.semantic.ladder import nearness
from paddock.resources_servers.pivot.semantic.match_results import MatchResult, Reason, differ
from paddock.resources_servers.pivot.semantic.messages import judge_message
from paddock.resources_servers.pivot.semantic.options import PartialCredit, SemanticOptions
from paddock.resources_servers.pivot.semantic.pairs import compare_pair
from paddock.resources_servers.pivot.semantic.surplus import UnmatchedCall, find_veto, only_looks
from paddock.resources_servers.pivot.semantic.texts import compare_last_words
from paddock.resources_servers.pivot.task import (
    ActionComparison,
    ExpectedAction,
    ExpectedCall,
    ExpectedMessage,
    call_chars_of,
    expected_calls,
)
from paddock.shell import BudgetError, StepBudget, limited, memo, take
from paddock.tools import Action, Ask, Finish, Think, UpdatePlan, kind_of
from paddock.types import JsonObject
from paddock.types.responses import content_text, is_complete, messages

_DEFAULT = SemanticOptions()
_NO_KEYS: Mapping[str, Any] = MappingProxyType({})
_MAX_DETAIL_CHARS = 500
MAX_CHARS = 50_000
"""Characters of a response's calls that are judged, unless the expert's own take more than a quarter of as many:
judging as many takes a core a quarter of a second."""
MAX_STEPS = 12_000
"""Steps (`paddock.shell.memo`) of one comparison: 9,600 nodes of commands, of both sides together, or some 800 pairs of
short calls. What takes more is `too_long`, and so no match."""
_STEPS_PER_PAIR = 5


class _Counts(NamedTuple):
    expected: int
    actual: int
    matched: int = 0
    destructive: bool = False
    credit: float | None = None
    """What rungs of the ladder add to the matched calls; None: no credit is given for them."""

    def comparison(self, reward: float, reason: Reason, detail: str = "") -> ActionComparison:
        metrics = {
            "matched": float(self.matched),
            "expected_calls": float(self.expected),
            "actual_calls": float(self.actual),
            "surplus": float(self.actual - self.matched),
            "destructive": float(self.destructive),
        }
        if self.credit is not None:
            metrics["partial_credit"] = self.credit
        # A reader's sentence goes into reports: short, and never a lone surrogate that no report could encode.
        shown = detail[:_MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()
        return ActionComparison(reward, reason, shown, metrics)


def compare(
    expected: ExpectedAction,
    response: object,
    params: JsonObject,
    options: SemanticOptions = _DEFAULT,
    row_task: Mapping[str, Any] = _NO_KEYS,
) -> ActionComparison:
    """Compare a response's action with the expert's.

    `params` is the row's `responses_create_params`: its tools are read, and its history where an edit needs it, or the
    place where one is. `row_task` has the row's own keys, of which `cwd` is read.
    """
    counts = _Counts(len(expected_calls(expected)), count_calls(response))
    try:
        with memo(), limited(StepBudget(MAX_STEPS)):
            return _compare(expected, response, params, options, row_task, counts)
    except BudgetError:
        return counts.comparison(0.0, "too_long", "not decided: its parts are more than are read and compared")


def _compare(
    expected: ExpectedAction,
    response: object,
    params: JsonObject,
    options: SemanticOptions,
    row_task: Mapping[str, Any],
    counts: _Counts,
) -> ActionComparison:
    actual, wanted = counts.actual, expected_calls(expected)
    if isinstance(expected, ExpectedMessage):
        return _compare_message(content_text(expected.content), response, counts, options)
    if not actual:
        if any(text.strip() for text in messages(response)):
            last_words = _last_words(wanted, params)
            if last_words:
                return _compare_message(last_words, response, counts, options, is_last=True)
            return counts.comparison(0.0, "call_expected", "expected a call, came a message")
        return counts.comparison(0.0, "no_action", "expected a call, came nothing")
    if actual > max(options.max_calls, 4 * len(wanted)):
        return counts.comparison(0.0, "too_many_calls", f"expected {len(wanted)} calls, came {actual}")
    chars, most = call_chars_of(response), max(MAX_CHARS, 4 * sum(len(call.arguments) for call in wanted))
    if chars > most:
        return counts.comparison(0.0, "too_long", f"not decided: {chars} characters came, at most {most} are judged")
    return _score(read_sides(expected, response, params, options, row_task), counts)


def expected_problem(expected: ExpectedAction, params: JsonObject) -> str | None:
    """Say why no response can match the expected action, which is the row's fault. None: it can be matched."""
    for call in RowTools(params).expected(expected_calls(expected)):
        if call.problem is not None and call.problem.reason == "expected_unusable":
            return call.problem.detail
    return None


def says_only(expected: ExpectedAction, params: JsonObject) -> bool:
    """Say whether the expert only said something: a message, last words, a question, a thought, a plan."""
    wanted = expected_calls(expected)
    if not all(kind_of(call.name) in ("finish", "ask", "think", "plan") for call in wanted):
        return False
    calls = RowTools(params).expected(wanted)
    return all(isinstance(call.action, Finish | Ask | Think | UpdatePlan) for call in calls)


def _last_words(wanted: Sequence[ExpectedCall], params: JsonObject) -> str | None:
    """Return what the expert says with a call that ends the task and does nothing else, as a message would."""
    if len(wanted) != 1 or kind_of(wanted[0].name) != "finish":
        return None
    match RowTools(params).expected(wanted):
        case [ParsedCall(action=Finish(text=text, rest=rest))] if not rest:
            return text
        case _:
            return None


def _compare_message(
    expected: str, response: object, counts: _Counts, options: SemanticOptions, *, is_last: bool = False
) -> ActionComparison:
    if counts.actual:
        return counts.comparison(0.0, "message_expected", f"expected a message, came {counts.actual} calls")
    texts = messages(response)
    if not texts:
        return counts.comparison(0.0, "no_action", "expected a message, came nothing")
    if isinstance(response, dict) and not is_complete(response):
        return counts.comparison(0.0, "incomplete", "expected a message, came one that was cut")
    result = judge_message(expected, texts, options)
    if result.same and is_last:
        result = compare_last_words(expected, "\n".join(texts), options)
    return counts.comparison(float(result.same), result.reason, result.detail)


def _compare_readings(
    ours: ParsedCall, theirs: ParsedCall, history: FileHistory, options: SemanticOptions
) -> MatchResult:
    if ours.action != theirs.action:
        take(_STEPS_PER_PAIR)
    if ours.action is not None and theirs.action is not None:
        return compare_pair(ours.action, theirs.action, history, options)
    return ours.problem or theirs.problem or differ("arguments_differ", "")


def _score(sides: Sides, counts: _Counts) -> ActionComparison:
    ours, theirs, (history, options) = sides
    counts = counts._replace(expected=len(ours), actual=len(theirs))
    if len(ours) == len(theirs) and all(own is other for own, other in zip(ours, theirs, strict=True)):
        # Word for word (`RowTools.actual`): however many there are, no pair has to be looked at.
        credit = None if options.partial_credit is None else 0.0
        return counts._replace(matched=len(ours), credit=credit).comparison(1.0, "match", "")
    table = [[_compare_readings(own, other, history, options) for other in theirs] for own in ours]
    fits = [[result.same for result in row] for row in table]
    partners = pair_up(fits, [call.action for call in ours], options)
    taken = set(partners.values())
    surplus = [
        UnmatchedCall(call.name, call.action, fits=any(row[j] for row in fits))
        for j, call in enumerate(theirs)
        if j not in taken
    ]
    matched = [action for j in taken if (action := theirs[j].action) is not None]
    veto = find_veto(surplus, matched, counts.actual > counts.expected, options)
    if options.multiple_calls == "f1" and veto is not None and veto.reason != "destructive_surplus":
        veto = None
    counts = counts._replace(
        matched=len(partners), destructive=veto is not None and veto.reason == "destructive_surplus"
    )
    if options.partial_credit is not None:
        # Where nothing matched, nothing of it can be undone.
        spoilt = veto is not None and (bool(partners) or veto.reason == "destructive_surplus")
        counts = counts._replace(credit=0.0 if spoilt else _credit(table, sides, partners))
    if not partners:
        nearest = _nearest(table)
        return counts.comparison((counts.credit or 0.0) / counts.expected, nearest.reason, nearest.detail)
    if veto is not None:
        return counts.comparison(0.0, veto.reason, veto.detail)
    reward = _reward(counts, matched, options)
    if len(partners) < counts.expected:
        missed = next(i for i in range(counts.expected) if i not in partners)
        reason: Reason = "order_differs" if any(fits[missed][j] for j in range(len(theirs))) else "partial_match"
        detail = (
            f"{len(partners)} of {counts.expected} expected calls came; {_nearest(table[missed : missed + 1]).detail}"
        )
        return counts.comparison(reward, reason, detail)
    if surplus:
        return counts.comparison(reward, "surplus_calls", f"what was expected came, and {len(surplus)} calls more")
    return counts.comparison(1.0, "match", "")


def _reward(counts: _Counts, matched: Sequence[Action], options: SemanticOptions) -> float:
    """Pay the matched calls of a response that no surplus call takes the reward from."""
    if options.multiple_calls == "f1":
        return 2 * counts.matched / (counts.expected + counts.actual)
    share = (counts.matched + (counts.credit or 0.0)) / max(counts.expected, counts.actual)
    surplus = counts.actual - counts.matched
    if counts.matched < counts.expected or not surplus or any(only_looks(action, options) for action in matched):
        return share
    return max(share, 1.0 - options.surplus_look_cost * surplus)


def _credit(table: list[list[MatchResult]], sides: Sides, partners: Mapping[int, int]) -> float:
    """Return what the rungs of calls that are not paired add to the number of those that are."""
    ours, theirs, surroundings = sides
    values = surroundings.options.partial_credit
    if values is None or len(theirs) > len(ours):
        return 0.0
    left = [i for i in range(len(ours)) if i not in partners]
    free = [j for j in range(len(theirs)) if j not in partners.values()]
    credits = [[_rung_value(ours[i], theirs[j], table[i][j], surroundings, values) for j in free] for i in left]
    return sum(row[j] for row, j in zip(credits, best_assignment(credits), strict=True) if j is not None)


def _rung_value(
    own: ParsedCall, other: ParsedCall, result: MatchResult, surroundings: Surroundings, values: PartialCredit
) -> float:
    # What matches here missed its order, which is known to matter.
    if own.action is None or other.action is None or result.same:
        return 0.0
    rung = nearness(own.action, other.action, result.reason, surroundings).rung
    return 0.0 if rung is None else values.value(rung)


def _nearest(table: Sequence[Sequence[MatchResult]]) -> MatchResult:
    """Return of the pairs that do not match the one that says most: of equal kinds before others."""
    results = [result for row in table for result in row if not result.same]
    near = [result for result in results if result.reason not in ("kind_differs", "tool_differs", "unknown_tool")]
    return (near or results or [differ("order_differs", "the calls came in another order")])[0]
