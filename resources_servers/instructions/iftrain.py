"""The 29 kinds of verifiable instructions of IFTrain, each a check of a text by its arguments.

Source  Pyatkin et al., "Generalizing Verifiable Instruction Following", arXiv:2507.02833, and the names, arguments and
        wordings of the published `verifiable_instructions`, whose kinds NeMo-Gym's rows have beside IFEval's. README.md
        names where a check differs.
Law     an argument that is missing or of another kind is the row's fault; it is never made up.
Time    each check is linear in the text.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any

import regex
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from paddock.resources_servers.instructions.checks import (
    Arguments,
    InstructionKind,
    Relation,
    Text,
    blocks,
    holds,
    literal,
)
from paddock.resources_servers.instructions.ifeval import IFEVAL_KINDS, PromptToRepeat
from paddock.resources_servers.instructions.sentences import bare_words, split_sentences

_MIN_PALINDROME = 3
"""Letters; any single one reads the same both ways."""
_MIN_PHRASE = 3
_PARAGRAPHS = 2
_COMPOSED_PARAGRAPHS = 3
_LOWERCASE_WORD = regex.compile(r"\b[a-z]+\b")
_LETTER = regex.compile(r"[a-zA-Z]")


def _first_of_list(value: Any) -> Any:
    """Rows give some words as lists of one."""
    return value[0] if isinstance(value, list) and value else value


def _has_word(value: str) -> str:
    if not bare_words(value):
        raise ValueError("needs a word, with a letter or a digit")
    return value


Keyword = Annotated[Text, BeforeValidator(_first_of_list)]
Word = Annotated[Keyword, AfterValidator(_has_word)]
"""What is compared without its marks."""


class RepeatedPhrase(Arguments):
    phrase: str
    small_n: int = Field(ge=1)

    @model_validator(mode="after")
    def _has_centre(self) -> "RepeatedPhrase":
        if len(self.phrase.split()) < _MIN_PHRASE:
            raise ValueError(f"phrase: needs {_MIN_PHRASE} words or more, of which one between the others is replaced")
        return self


class PromptSpan(PromptToRepeat):
    n_start: int = Field(ge=0)
    n_end: int = Field(ge=1)

    @model_validator(mode="after")
    def _has_text(self) -> "PromptSpan":
        if not self.span.strip():
            raise ValueError(f"n_start, n_end: nothing stands at {self.n_start}:{self.n_end} of the prompt")
        return self

    @property
    def span(self) -> str:
        return self.prompt_to_repeat[self.n_start : self.n_end]


class OneKeyword(Arguments):
    keyword: Keyword


class TwoKeywords(Arguments):
    keyword1: Keyword
    keyword2: Keyword


class KeywordPosition(Arguments):
    keyword: Word
    n: int = Field(ge=1)
    """Number of the sentence, from 1."""
    m: int = Field(ge=1)
    """Number of the word in it, from 1."""


class FirstWordOf(Arguments):
    first_word: Word


class LastWordOf(Arguments):
    last_word: Word


class Copies(PromptToRepeat):
    copies: int = Field(alias="N", ge=1)


class MostLowercase(Arguments):
    most: int = Field(alias="N", ge=0)


class LetterCount(Arguments):
    letters: int = Field(alias="N", ge=0)
    relation: Relation


class ComposedParagraphs(Arguments):
    n_sent: int = Field(ge=1)
    n_words: int = Field(ge=1)


def _phrase_with_changes(text: str, given: RepeatedPhrase) -> bool:
    words = given.phrase.split()
    found = _spans(text, f"{words[0]} ", f" {words[-1]}")
    return len(found) == given.small_n and all(_differs_in_one(span.split(), words) for span in found)


def _spans(text: str, first: str, last: str) -> list[str]:
    """What begins with `first` and ends with the next `last` of the same line, one after the other."""
    spans: list[str] = []
    for line in text.split("\n"):
        at = 0
        while (start := line.find(first, at)) >= 0 and (end := line.find(last, start + len(first))) >= 0:
            at = end + len(last)
            spans.append(line[start:at])
    return spans


def _differs_in_one(words: list[str], others: list[str]) -> bool:
    return len(words) == len(others) and sum(one != other for one, other in zip(words, others, strict=True)) == 1


def _same(text: str, other: str) -> bool:
    return text.strip().lower() == other.strip().lower()


def _copies_prompt(text: str, given: PromptToRepeat) -> bool:
    return _same(text, given.prompt_to_repeat)


def _copies_span(text: str, given: PromptSpan) -> bool:
    return _same(text, given.span)


def _copies_prompt_often(text: str, given: Copies) -> bool:
    copies = text.split("******")
    return len(copies) == given.copies and all(_same(copy, given.prompt_to_repeat) for copy in copies)


def _hyphens_between_sentences(text: str, _: Arguments) -> bool:
    return text.strip().split("-") == split_sentences(text.replace("-", " "))


def _no_consecutive_letters(text: str, _: Arguments) -> bool:
    initials = [word[0] for word in bare_words(text)]
    return not any("a" <= one < other <= "z" and ord(other) - ord(one) == 1 for one, other in pairwise(initials))


def _square_brackets(text: str, _: Arguments) -> bool:
    return all(word.startswith("[") and word.endswith("]") for word in text.split())


def _double_brackets(text: str, _: Arguments) -> bool:
    words = text.split()
    return all(
        one.startswith("<<") and other.endswith(">>") for one, other in zip(words[::2], words[1::2], strict=False)
    )


def _count(text: str, keyword: str) -> int:
    return len(literal(keyword.strip()).findall(text))


def _once(text: str, given: OneKeyword) -> bool:
    return _count(text, given.keyword) == 1


def _once_and_twice(text: str, given: TwoKeywords) -> bool:
    return _count(text, given.keyword1) == 1 and _count(text, given.keyword2) == 2


def _without(text: str, given: OneKeyword) -> bool:
    return literal(given.keyword.strip(), whole=True).search(text) is None


def _at_position(text: str, given: KeywordPosition) -> bool:
    sentences = split_sentences(text)
    words = bare_words(sentences[given.n - 1]) if given.n <= len(sentences) else []
    return _starts(words[given.m - 1 :], given.keyword)


def _starts(words: list[str], given: str) -> bool:
    asked = bare_words(given)
    return words[: len(asked)] == asked


def _has_palindrome(text: str, _: Arguments) -> bool:
    return any(len(word) >= _MIN_PALINDROME and word.isalpha() and word == word[::-1] for word in bare_words(text))


def _same_first_and_last(text: str, _: Arguments) -> bool:
    text, words = text.strip().lower(), bare_words(text)
    return len(words) > 1 and words[0] == words[-1] and text.startswith(words[0]) and text.endswith(words[-1])


def _paragraphs_by_divider(text: str, _: Arguments) -> bool:
    return len(blocks(text, "***")) == _PARAGRAPHS


def _paragraphs_by_lines(text: str, _: Arguments) -> bool:
    return len(blocks(text, "\n\n")) == _PARAGRAPHS


def _begins(text: str, given: FirstWordOf) -> bool:
    return _starts(bare_words(text), given.first_word)


def _ends(text: str, given: LastWordOf) -> bool:
    asked = bare_words(given.last_word)
    return bare_words(text)[-len(asked) :] == asked


def _sentences_begin(text: str, given: FirstWordOf) -> bool:
    sentences = split_sentences(text)
    return bool(sentences) and all(_begins(sentence, given) for sentence in sentences)


def _sentences_end(text: str, given: LastWordOf) -> bool:
    sentences = split_sentences(text)
    return bool(sentences) and all(_ends(sentence, given) for sentence in sentences)


def _no_dot(text: str, _: Arguments) -> bool:
    return "." not in text


def _no_exclamation(text: str, _: Arguments) -> bool:
    return "!" not in text


def _few_lowercase(text: str, given: MostLowercase) -> bool:
    return len(_LOWERCASE_WORD.findall(text)) <= given.most


def _letter_count(text: str, given: LetterCount) -> bool:
    return holds(len(_LETTER.findall(text)), given.relation, given.letters)


def _composed(text: str, given: ComposedParagraphs) -> bool:
    paragraphs = [split_sentences(block) for block in blocks(text.replace("* * *", "***"), "***")]
    return len(paragraphs) == _COMPOSED_PARAGRAPHS and all(
        len(sentences) == given.n_sent and all(len(bare_words(one)) == given.n_words for one in sentences)
        for sentences in paragraphs
    )


def _unique(text: str, _: Arguments) -> bool:
    words = bare_words(text)
    return len(words) == len(set(words))


IFTRAIN_KINDS: Mapping[str, InstructionKind] = {
    "copy:repeat_phrase": InstructionKind(RepeatedPhrase, _phrase_with_changes),
    "copy:copy": InstructionKind(PromptToRepeat, _copies_prompt),
    "copy:copying_simple": InstructionKind(PromptToRepeat, _copies_prompt),
    "copy:copying_multiple": InstructionKind(Copies, _copies_prompt_often),
    "new:copy_span_idx": InstructionKind(PromptSpan, _copies_span),
    "detectable_format:sentence_hyphens": InstructionKind(Arguments, _hyphens_between_sentences),
    "detectable_format:square_brackets": InstructionKind(Arguments, _square_brackets),
    "detectable_format:bigram_wrapping": InstructionKind(Arguments, _double_brackets),
    "keywords:no_adjacent_consecutive": InstructionKind(Arguments, _no_consecutive_letters),
    "keywords:word_once": InstructionKind(OneKeyword, _once),
    "keywords:word_count_different_numbers": IFEVAL_KINDS["keywords:frequency"],
    "keywords:exclude_word_harder": InstructionKind(OneKeyword, _without),
    "keywords:palindrome": InstructionKind(Arguments, _has_palindrome),
    "keywords:keyword_specific_position": InstructionKind(KeywordPosition, _at_position),
    "keywords:start_end": InstructionKind(Arguments, _same_first_and_last),
    "paragraphs:paragraphs": InstructionKind(Arguments, _paragraphs_by_divider),
    "paragraphs:paragraphs2": InstructionKind(Arguments, _paragraphs_by_lines),
    "first_word:first_word_sent": InstructionKind(FirstWordOf, _sentences_begin),
    "first_word:first_word_answer": InstructionKind(FirstWordOf, _begins),
    "last_word:last_word_sent": InstructionKind(LastWordOf, _sentences_end),
    "last_word:last_word_answer": InstructionKind(LastWordOf, _ends),
    "punctuation:punctuation_dot": InstructionKind(Arguments, _no_dot),
    "punctuation:punctuation_exclamation": InstructionKind(Arguments, _no_exclamation),
    "count:lowercase_counting": InstructionKind(MostLowercase, _few_lowercase),
    "count:counting_composition": InstructionKind(ComposedParagraphs, _composed),
    "count:count_unique": InstructionKind(Arguments, _unique),
    "count:count_increment_word": InstructionKind(TwoKeywords, _once_and_twice),
    "letters:letter_counting": InstructionKind(LetterCount, _letter_count),
    "letters:letter_counting2": IFEVAL_KINDS["keywords:letter_frequency"],
}
