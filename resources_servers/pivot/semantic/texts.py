"""Whether what the policy says may stand for what the expert said: a message, last words, a thought.

Law     of many good texts the expert gave one, so the bar is low, and it is there to be passed by any honest answer. A
        text passes when it holds a letter, a digit or a symbol; is not far longer than the expert's; and shares words
        of content with it: `text_shared_words` of them, or half of those that the expert has where that is less.
Words   letters, digits and underscores, without case and the commonest endings; words without content are left out. Of
        scripts that do not part words, each character is one.
Finish  last words that give up where the expert's do not, or the reverse, are others.
Errors  none.
"""

import re
import unicodedata

from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions

MAX_TIMES_LONGER = 10
ALWAYS_CHARS = 4000
"""Characters that a text may have, whatever the length of the expert's."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_SUFFIX = re.compile(r"(?<=\w\w\w)(?:ing|ed|es)$|(?<=\w\w)s$")
_EMPTY = frozenset(
    word
    for words in (
        "a about after again all also am an and any are as at be been before but by can could did do does doing done",
        "down else for from get had has have he her here his how i if in into is it its just let like ll made make may",
        "me more most must my no not now of off ok on once one only or other our out over please re s shall she should",
        "so some such t than that the their them then there these they this those to too under up us ve very was we",
        "well were what when where which while who why will with would yes you your",
    )
    for word in words.split()
)
_GIVES_UP = re.compile(
    r"\b(?:i|we)(?:['’]m)?\s+(?:(?:can|could)\s*(?:not|n['’]t)|can['’]t|cannot|failed|give up|gave up"
    r"|(?:(?:am|are|was|were)\s+)?(?:unable|not able))\b"
    r"|\b(?:changed nothing|nothing (?:was|is|has been) (?:changed|fixed|done))\b"
    r"|\bno changes? (?:(?:was|were|has been|have been) )?made\b"
    r"|\bnot (?:been )?(?:fixed|solved|resolved)\b",
    re.IGNORECASE,
)


def compare_texts(expected: str, actual: str, options: SemanticOptions) -> MatchResult:
    """Say whether `actual` says enough of what `expected` says."""
    if expected == actual:
        return SAME
    if not _has_substance(actual):
        return differ("text_differs", "the text has no word")
    most = max(ALWAYS_CHARS, MAX_TIMES_LONGER * len(expected))
    if not options.text_shared_words:
        return SAME
    if len(actual) > most:
        return differ("text_differs", f"the text has {len(actual)} characters, the expert's {len(expected)}")
    wanted = content_words(expected)
    needed = min(options.text_shared_words, len(wanted) // 2)
    shared = len(wanted & content_words(actual))
    if shared < needed:
        return differ("text_differs", f"of the expert's words the text has {shared}, and needs {needed}")
    return SAME


def compare_last_words(expected: str, actual: str, options: SemanticOptions) -> MatchResult:
    """Compare as `compare_texts` does; moreover both give up, or neither."""
    result = compare_texts(expected, actual, options)
    if not result.same or not options.text_shared_words:
        return result
    if (_GIVES_UP.search(expected) is None) != (_GIVES_UP.search(actual) is None):
        return differ("text_differs", "one of both says that the task was given up")
    return SAME


def content_words(text: str) -> frozenset[str]:
    words = (word.strip("_") for word in _WORD.findall(text.casefold()))
    return frozenset(_SUFFIX.sub("", word) for word in words if word and word not in _EMPTY)


def _has_substance(text: str) -> bool:
    return any(char.isalnum() or unicodedata.category(char) == "So" for char in text)
