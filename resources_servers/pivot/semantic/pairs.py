"""Whether one actual action does what one expected action does.

Law     the kinds must agree; the tools may differ inside a kind. Two calls of other kinds or other words are the same
        where what they are for is known and is the same (`intents`). What a finish, a question or a thought says has
        to be near to what the expert said (`texts`); of a plan only that it says something where the expert did. A
        look at the plan is no new plan.
Other   a call of a tool that no table knows needs the same name and equal arguments after the schema's defaults:
        1 equals 1.0, never true; strings are exact, but for the commas and stops and the first letter of a sentence;
        list order counts.
"""

import re

from paddock.resources_servers.pivot.semantic.changes import compare_edits
from paddock.resources_servers.pivot.semantic.commands import compare_commands, compare_input
from paddock.resources_servers.pivot.semantic.history import FileHistory
from paddock.resources_servers.pivot.semantic.intents import Surroundings, compare_intents
from paddock.resources_servers.pivot.semantic.intents.searches import compare_searches
from paddock.resources_servers.pivot.semantic.intents.views import compare_reads
from paddock.resources_servers.pivot.semantic.looks import compare_lists
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.texts import compare_last_words, compare_spoken, compare_texts
from paddock.tools import (
    Action,
    Ask,
    Edit,
    Finish,
    ListFolder,
    OtherCall,
    ReadFile,
    Search,
    ShellCommand,
    Stdin,
    Think,
    UpdatePlan,
    same_json,
)


def compare_pair(expected: Action, actual: Action, history: FileHistory, options: SemanticOptions) -> MatchResult:
    result = _compare_as_called(expected, actual, history, options)
    if result.same or result.reason == "limit_differs":
        return result
    by_intent = compare_intents(expected, actual, Surroundings(history, options))
    return by_intent if by_intent is not None and by_intent.same else result


def _compare_as_called(expected: Action, actual: Action, history: FileHistory, options: SemanticOptions) -> MatchResult:
    match expected, actual:
        case ShellCommand(), ShellCommand():
            return compare_commands(expected, actual, options)
        case Stdin(), Stdin():
            return compare_input(expected, actual)
        case Edit(), Edit():
            return compare_edits(expected, actual, history, options)
        case ReadFile(), ReadFile():
            return compare_reads(expected, actual, Surroundings(history, options))
        case Search(), Search():
            return compare_searches(expected, actual, Surroundings(history, options))
        case ListFolder(), ListFolder():
            return compare_lists(expected, actual, options)
        case OtherCall(), OtherCall():
            return _compare_unknown(expected, actual)
        case (Finish() | Think() | Ask(), Finish() | Think() | Ask()) if type(expected) is type(actual):
            return _compare_texts(expected, actual, options)
        case UpdatePlan(), UpdatePlan():
            if expected.command != actual.command:
                return differ("plan_differs", f"expected {describe(expected)}, came {describe(actual)}")
            return _compare_words(expected, actual, has_text=actual.steps > 0 or not expected.steps)
        case _:
            return differ("kind_differs", f"expected {describe(expected)}, came {describe(actual)}")


_SPACES_IN_SENTENCE = 3
_SENTENCE = re.compile(r"[A-Za-z](?:[\w ,.;!?#$%&@/:-]|(?<=\w)'(?=\w))*")

Words = Finish | Think | Ask | UpdatePlan


def _compare_texts(
    expected: Finish | Think | Ask, actual: Finish | Think | Ask, options: SemanticOptions
) -> MatchResult:
    result = _compare_words(expected, actual, has_text=bool(actual.text) or not expected.text)
    if not result.same or not expected.text or not actual.text:
        return result
    match expected:
        case Finish():
            return compare_last_words(expected.text, actual.text, options)
        case Ask():
            return compare_spoken(expected.text, actual.text, options)
        case Think():
            return compare_texts(expected.text, actual.text, options)


def _compare_words(expected: Words, actual: Words, *, has_text: bool = True) -> MatchResult:
    if not has_text:
        return differ("missing_argument", f"{describe(actual)} says nothing")
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    return SAME


def _compare_unknown(expected: OtherCall, actual: OtherCall) -> MatchResult:
    if expected.name != actual.name:
        return differ("tool_differs", f"expected {clip(expected.name)}, came {clip(actual.name)}")
    keys = [*expected.arguments, *(key for key in actual.arguments if key not in expected.arguments)]
    wrong = next((key for key in keys if not _same_at(key, expected, actual)), None)
    if wrong is None:
        return SAME
    return differ("arguments_differ", f"of {clip(expected.name)} the argument {clip(wrong)} differs")


def _same_at(key: str, expected: OtherCall, actual: OtherCall) -> bool:
    if key not in expected.arguments or key not in actual.arguments:
        return False
    wanted, given = expected.arguments[key], actual.arguments[key]
    if isinstance(wanted, str) and isinstance(given, str) and _is_sentence(wanted):
        return _bare(wanted) == _bare(given)
    return same_json(wanted, given)


def _is_sentence(text: str) -> bool:
    return text.count(" ") >= _SPACES_IN_SENTENCE and _SENTENCE.fullmatch(text) is not None


def _bare(sentence: str) -> str:
    """Return a sentence without the marks behind its words and the case of its first letter."""
    bare = " ".join(filter(None, (word.rstrip(",;.!?") for word in sentence.split())))
    return bare[:1].lower() + bare[1:]
