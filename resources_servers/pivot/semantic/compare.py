"""The semantic comparator: a response passes when it does what the expert did, whatever it is spelled like.

Reward      matched / max(expected, actual) calls, of the best pairing: 1 for the one call that is the same action.
Guessing    never pays: the calls that may match come from one belief, so the mean of the best n of them, made alone,
            is at least the mean of any more. With one call expected, k different calls are right with p1 + ... + pk
            and earn 1/k of it: at most the largest of them.
Surplus     an unmatched call that destroys makes any of these 0. So does, where more calls came than expected, one that
            is not known only to look or to note; where not, one that undoes (see `surplus`).
Message     1 when the response is a message, complete, free of calls and near to the expert's, else 0.
Soundness   stated per kind in this folder's modules; what is not known to be the same is not the same.
Errors      none on any JSON: what is malformed, empty or cut matches nothing, and the reason says so.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.batches import pair_up
from paddock.resources_servers.pivot.semantic.calls import Reading, RowTools, actual_readings, count_calls
from paddock.resources_servers.pivot.semantic.findings import Finding, Reason, differ
from paddock.resources_servers.pivot.semantic.history import History
from paddock.resources_servers.pivot.semantic.messages import judge_message
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.pairs import compare_pair
from paddock.resources_servers.pivot.semantic.surplus import Unmatched, vetoed
from paddock.resources_servers.pivot.task import Comparison, ExpectedAction, ExpectedMessage, chars_of, expected_calls
from paddock.shell import memo
from paddock.types import JsonObject
from paddock.types.responses import content_text, is_complete, messages

_DEFAULT = SemanticOptions()
_MAX_DETAIL_CHARS = 500
MAX_CHARS = 500_000
"""Characters of a response that are judged, unless the expert's own calls take more than a quarter of as many: judging
takes a thread some seconds for as many."""


class _Counts(NamedTuple):
    expected: int
    actual: int
    matched: int = 0
    destructive: bool = False

    def judged(self, reward: float, reason: Reason, detail: str = "") -> Comparison:
        metrics = {
            "matched": float(self.matched),
            "expected_calls": float(self.expected),
            "actual_calls": float(self.actual),
            "surplus": float(self.actual - self.matched),
            "destructive": float(self.destructive),
        }
        # A reader's sentence goes into reports: short, and never a lone surrogate that no report could encode.
        shown = detail[:_MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()
        return Comparison(reward, reason, shown, metrics)


def compare(
    expected: ExpectedAction, response: object, params: JsonObject, options: SemanticOptions = _DEFAULT
) -> Comparison:
    """`params` is the row's `responses_create_params`: its tools are read, and its history where an edit needs it."""
    with memo():
        return _compare(expected, response, params, options)


def _compare(expected: ExpectedAction, response: object, params: JsonObject, options: SemanticOptions) -> Comparison:
    actual = count_calls(response)
    wanted = expected_calls(expected)
    counts = _Counts(len(wanted), actual)
    if isinstance(expected, ExpectedMessage):
        return _compare_message(content_text(expected.content), response, counts, options)
    if not actual:
        if any(text.strip() for text in messages(response)):
            return counts.judged(0.0, "call_expected", "expected a call, came a message")
        return counts.judged(0.0, "no_action", "expected a call, came nothing")
    if actual > max(options.max_calls, 4 * len(wanted)):
        return counts.judged(0.0, "too_many_calls", f"expected {len(wanted)} calls, came {actual}")
    chars, most = chars_of(response), max(MAX_CHARS, 4 * sum(len(call.arguments) for call in wanted))
    if chars > most:
        return counts.judged(0.0, "too_long", f"not decided: {chars} characters came, at most {most} are judged")
    tools = RowTools(params)
    ours = tools.expected(wanted)
    theirs = actual_readings(response, tools)
    table = _table(ours, theirs, History(params, tools.schema), options)
    return _score(table, ours, theirs, counts, options)


def expected_problem(expected: ExpectedAction, params: JsonObject) -> str | None:
    """Why no response can match the expected action: the row's fault, not the policy's. None: it can be matched."""
    for reading in RowTools(params).expected(expected_calls(expected)):
        if reading.problem is not None and reading.problem.reason == "expected_unusable":
            return reading.problem.detail
    return None


def _compare_message(expected: str, response: object, counts: _Counts, options: SemanticOptions) -> Comparison:
    if counts.actual:
        return counts.judged(0.0, "message_expected", f"expected a message, came {counts.actual} calls")
    texts = messages(response)
    if not texts:
        return counts.judged(0.0, "no_action", "expected a message, came nothing")
    if isinstance(response, dict) and not is_complete(response):
        return counts.judged(0.0, "incomplete", "expected a message, came one that was cut")
    found = judge_message(expected, texts, options)
    return counts.judged(float(found.same), found.reason, found.detail)


def _table(
    ours: Sequence[Reading], theirs: Sequence[Reading], history: History, options: SemanticOptions
) -> list[list[Finding]]:
    return [[_compare_readings(mine, other, history, options) for other in theirs] for mine in ours]


def _compare_readings(ours: Reading, theirs: Reading, history: History, options: SemanticOptions) -> Finding:
    if ours.action is not None and theirs.action is not None:
        return compare_pair(ours.action, theirs.action, history, options)
    return ours.problem or theirs.problem or differ("arguments_differ", "")


def _score(
    table: list[list[Finding]],
    ours: Sequence[Reading],
    theirs: Sequence[Reading],
    counts: _Counts,
    options: SemanticOptions,
) -> Comparison:
    fits = [[finding.same for finding in row] for row in table]
    paired = pair_up(fits, [reading.action for reading in ours], options)
    taken = set(paired.values())
    surplus = [
        Unmatched(reading.name, reading.action, fits=any(row[j] for row in fits))
        for j, reading in enumerate(theirs)
        if j not in taken
    ]
    matched = [action for j in taken if (action := theirs[j].action) is not None]
    veto = vetoed(surplus, matched, counts.actual > counts.expected, options)
    counts = counts._replace(matched=len(paired), destructive=veto is not None and veto.reason == "destructive_surplus")
    if not paired:
        nearest = _nearest(table)
        return counts.judged(0.0, nearest.reason, nearest.detail)
    if veto is not None:
        return counts.judged(0.0, veto.reason, veto.detail)
    reward = len(paired) / max(counts.expected, counts.actual)
    if len(paired) < counts.expected:
        missed = next(i for i in range(counts.expected) if i not in paired)
        reason: Reason = "order_differs" if any(fits[missed][j] for j in range(len(theirs))) else "partial_match"
        detail = (
            f"{len(paired)} of {counts.expected} expected calls came; {_nearest(table[missed : missed + 1]).detail}"
        )
        return counts.judged(reward, reason, detail)
    if surplus:
        return counts.judged(reward, "surplus_calls", f"what was expected came, and {len(surplus)} calls more")
    return counts.judged(1.0, "match", "")


def _nearest(table: Sequence[Sequence[Finding]]) -> Finding:
    """Of the pairs that are not the same, one that says most: of equal kinds before others."""
    findings = [finding for row in table for finding in row if not finding.same]
    near = [finding for finding in findings if finding.reason not in ("kind_differs", "tool_differs", "unknown_tool")]
    return (near or findings or [differ("order_differs", "the calls came in another order")])[0]
