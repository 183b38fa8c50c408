"""Whether what the policy says may stand for what the expert said: a message, last words, a question, a thought.

Law     of many good texts the expert gave one, so the bar is low, and it is there to be passed by any honest answer. A
        text passes when it holds a letter, a digit or a symbol; is not far longer than the expert's; and shares words
        of content with it: `text_shared_words` of them, or half of those that the expert has where that is less.
Words   letters, digits and underscores, without case and the commonest endings; words without content are left out. Of
        scripts that do not part words, each character is one.
Terms   it mentions `text_shared_terms` of the expert's terms (`terms`), where he has any, and two where he has two.
Spoken  messages, last words and questions are moreover of the expert's kind (`message_kinds`). Of a question only the
        sentences that ask count, on both sides, but a term may stand anywhere. Of a text with fewer than two words of
        content only matters whether it refuses.
Finish  last words that give up where the expert's do not, or the reverse, are others whatever they ask.
Errors  none.
"""

import re
import unicodedata
from math import ceil

from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, differ
from paddock.resources_servers.pivot.semantic.message_kinds import gives_up, spoken_text
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.terms import mentioned_words, terms_of

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
_LEAST_TERMS = 2
"""Terms that are mentioned where the expert has as many, whatever share they are."""
_WORDS_OF_A_KIND = 2
"""Words of content from which on a text is of a kind: a greeting has fewer."""


def compare_texts(expected: str, actual: str, options: SemanticOptions) -> MatchResult:
    """Say whether `actual` says enough of what `expected` says; a thought is compared so."""
    if expected == actual:
        return SAME
    unsound = _unsound(expected, actual, options)
    if unsound is not None or not options.text_shared_words:
        return unsound or SAME
    result = _compare_words(content_words(expected), actual, options)
    return _compare_terms(expected, actual, options) if result.same else result


def compare_spoken(expected: str, actual: str, options: SemanticOptions) -> MatchResult:
    """Compare what is said to a user: as `compare_texts` does, and by kind."""
    if expected == actual:
        return SAME
    unsound = _unsound(expected, actual, options)
    if unsound is not None or not options.text_shared_words:
        return unsound or SAME
    own, other = spoken_text(expected), spoken_text(actual)
    wanted = content_words(own.text)
    kinds_count = len(wanted) >= _WORDS_OF_A_KIND or "refusal" in (own.kind, other.kind)
    if kinds_count and own.kind != other.kind:
        return differ("text_differs", f"expected a {own.kind}, came a {other.kind}")
    result = _compare_words(wanted, other.text if kinds_count else actual, options)
    return _compare_terms(own.text, actual, options) if result.same else result


def compare_last_words(expected: str, actual: str, options: SemanticOptions) -> MatchResult:
    """Compare as `compare_spoken` does; moreover both give up, or neither."""
    result = compare_spoken(expected, actual, options)
    if not result.same or not options.text_shared_words:
        return result
    if gives_up(expected) != gives_up(actual):
        return differ("text_differs", "one of both says that the task was given up")
    return SAME


def _unsound(expected: str, actual: str, options: SemanticOptions) -> MatchResult | None:
    """Say why a text can stand for none, or not for one of the expert's length."""
    if not _has_substance(actual):
        return differ("text_differs", "the text has no word")
    most = max(ALWAYS_CHARS, MAX_TIMES_LONGER * len(expected))
    if options.text_shared_words and len(actual) > most:
        return differ("text_differs", f"the text has {len(actual)} characters, the expert's {len(expected)}")
    return None


def _compare_words(wanted: frozenset[str], actual: str, options: SemanticOptions) -> MatchResult:
    needed = min(options.text_shared_words, len(wanted) // 2)
    shared = len(wanted & content_words(actual))
    if shared < needed:
        return differ("text_differs", f"of the expert's words the text has {shared}, and needs {needed}")
    return SAME


def _compare_terms(expected: str, actual: str, options: SemanticOptions) -> MatchResult:
    terms = terms_of(expected)
    needed = ceil(options.text_shared_terms * len(terms))
    if needed:
        needed = max(needed, min(_LEAST_TERMS, len(terms)))
    words = mentioned_words(actual)
    missed = sorted(" ".join(sorted(term)) for term in terms if not term <= words)
    if len(terms) - len(missed) < needed:
        return differ("text_differs", f"needs {needed} of the expert's {len(terms)} terms, but lacks {missed[:5]}")
    return SAME


def content_words(text: str) -> frozenset[str]:
    words = (word.strip("_") for word in _WORD.findall(text.casefold()))
    return frozenset(_SUFFIX.sub("", word) for word in words if word and word not in _EMPTY)


def _has_substance(text: str) -> bool:
    return any(char.isalnum() or unicodedata.category(char) == "So" for char in text)
