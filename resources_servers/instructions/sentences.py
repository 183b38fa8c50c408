"""Splits English text into sentences and words, without a model that would have to be downloaded.

Source  the rules by which IFEval's authors describe a sentence: it ends with `.`, `?` or `!`, but not within a
        number, an address of the web, an abbreviation of a title or a company, or initials.
Law     a run of marks ends one sentence, with the quotes and brackets that close behind it; a dot with a letter or a
        digit right after it ends none. What has no letter or digit is no sentence.
Time    linear in the text.
"""

import regex

_END = regex.compile(r"[.?!]+")
_TITLES = frozenset(("mr", "mrs", "ms", "dr", "st", "prof", "capt", "cpt", "lt", "mt"))
_COMPANIES = frozenset(("inc", "ltd", "jr", "sr", "co"))
_STARTER = regex.compile(
    r"\s+(?:Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He|She|It|They|Their|Our|We|But|However|That|This|Wherever)\b"
)
_LAST_WORD = regex.compile(r"(?r)(?:[^\W\d_]\.)*[^\W\d_]+")
_MAX_WORD = 40
_WORD = regex.compile(r"\w+")
_CLOSING = frozenset("\"'”’)]")
_BETWEEN_WORDS = regex.compile(r"[\s—–/]+")
_MARK = regex.compile(r"[^\w\s]")
_CAPITAL = regex.compile(r"\w+(?:[-.'’&]\w+)*")


def split_sentences(text: str) -> list[str]:
    """The sentences; what stands after the last mark is one, too."""
    sentences: list[str] = []
    start = 0
    for found in _END.finditer(text):
        if _ends(text, found.start(), found.end()):
            end = found.end()
            while text[end : end + 1] in _CLOSING:
                end += 1
            if _WORD.search(text, start, found.start()):
                sentences.append(text[start:end].strip())
            start = end
    if _WORD.search(text, start):
        sentences.append(text[start:].strip())
    return sentences


def count_sentences(text: str) -> int:
    return len(split_sentences(text))


def _ends(text: str, start: int, end: int) -> bool:
    """Say whether marks from `start` to `end` end a sentence."""
    if text[start:end] != ".":
        return True
    if text[end : end + 1].isalnum():
        return False
    word = _word_before(text, start)
    if word.lower() in _TITLES:
        return False
    if "." in word or len(word) == 1 or word.lower() in _COMPANIES:
        return _STARTER.match(text, end) is not None
    return True


def _word_before(text: str, end: int) -> str:
    found = _LAST_WORD.match(text, max(0, end - _MAX_WORD), end)
    return found[0] if found else ""


def bare_words(text: str) -> list[str]:
    """The words between blanks, dashes and slashes, in small letters and without marks: `Well-known?` is one."""
    return _MARK.sub("", _BETWEEN_WORDS.sub(" ", text)).lower().split()


def count_words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def count_capital_words(text: str) -> int:
    """Count the words without a small letter; a hyphen, an apostrophe or a dot within a word does not end it."""
    return sum(found[0].isupper() for found in _CAPITAL.finditer(text))
