"""The 25 kinds of verifiable instructions of IFEval, each a check of a text by its arguments.

Source  Zhou et al., "Instruction-Following Evaluation for Large Language Models", arXiv:2311.07911, and the names and
        arguments of its published rows (`instruction_id_list`, `kwargs`). README.md names where a check differs.
Law     an argument that is missing or of another kind is the row's fault; it is never made up.
Time    each check is linear in the text, but for the language, which is looked for in its first 10,000 characters.
"""

import json
import threading
from collections.abc import Mapping
from typing import Any

import regex
from pydantic import Field, model_validator

from paddock.errors import ConfigError
from paddock.resources_servers.instructions.checks import (
    Arguments,
    InstructionKind,
    Relation,
    Text,
    blocks,
    holds,
    literal,
)
from paddock.resources_servers.instructions.sentences import count_capital_words, count_sentences, count_words

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
_MAX_LANGUAGE_CHARS = 10_000
_READS_PROFILES = threading.Lock()
_FENCES = ("```json", "```Json", "```JSON", "```")


class Keywords(Arguments):
    keywords: list[Text] = Field(min_length=1)


class KeywordFrequency(Arguments):
    keyword: Text
    frequency: int = Field(ge=0)
    relation: Relation


class ForbiddenWords(Arguments):
    forbidden_words: list[Text] = Field(min_length=1)


class LetterFrequency(Arguments):
    letter: str = Field(min_length=1, max_length=1)
    let_frequency: int = Field(ge=0)
    let_relation: Relation


class ResponseLanguage(Arguments):
    language: str = Field(min_length=2)


class Sentences(Arguments):
    num_sentences: int = Field(ge=0)
    relation: Relation


class Paragraphs(Arguments):
    num_paragraphs: int = Field(ge=0)


class Words(Arguments):
    num_words: int = Field(ge=0)
    relation: Relation


class FirstWord(Arguments):
    num_paragraphs: int = Field(ge=1)
    nth_paragraph: int = Field(ge=1)
    first_word: Text

    @model_validator(mode="after")
    def _is_one_of_them(self) -> "FirstWord":
        if self.nth_paragraph > self.num_paragraphs:
            raise ValueError(f"nth_paragraph: {self.nth_paragraph} of {self.num_paragraphs} paragraphs")
        return self


class Placeholders(Arguments):
    num_placeholders: int = Field(ge=0)


class Postscript(Arguments):
    postscript_marker: Text


class Bullets(Arguments):
    num_bullets: int = Field(ge=0)


class Highlights(Arguments):
    num_highlights: int = Field(ge=0)


class Sections(Arguments):
    section_spliter: Text
    num_sections: int = Field(ge=0)


class PromptToRepeat(Arguments):
    prompt_to_repeat: Text


class EndPhrase(Arguments):
    end_phrase: Text


class CapitalFrequency(Arguments):
    capital_frequency: int = Field(ge=0)
    capital_relation: Relation


def _existence(text: str, given: Keywords) -> bool:
    return all(literal(word).search(text) for word in given.keywords)


def _frequency(text: str, given: KeywordFrequency) -> bool:
    count = len(literal(given.keyword.strip()).findall(text))
    return holds(count, given.relation, given.frequency)


def _no_forbidden(text: str, given: ForbiddenWords) -> bool:
    return not any(literal(word, whole=True).search(text) for word in given.forbidden_words)


def _letters(text: str, given: LetterFrequency) -> bool:
    return holds(text.lower().count(given.letter.lower()), given.let_relation, given.let_frequency)


def language_of(text: str) -> str | None:
    """Name the language by its code of two letters; None: the text has no letters by which to tell.

    Raises ConfigError where langdetect is not installed.
    """
    langdetect = _langdetect()
    try:
        return str(langdetect.detect(text[:_MAX_LANGUAGE_CHARS]))
    except langdetect.LangDetectException:
        return None


def _langdetect() -> Any:
    try:
        import langdetect
        from langdetect import detector_factory
    except ImportError as error:
        raise ConfigError("the instructions server needs langdetect: pip install 'paddock[instructions]'") from error
    # Its profiles are visible to other threads before they are all read.
    with _READS_PROFILES:
        # Without a seed a short text is of another language each time.
        langdetect.DetectorFactory.seed = 0
        detector_factory.init_factory()
    return langdetect


def _language(text: str, given: ResponseLanguage) -> bool:
    return language_of(text) == given.language


def _sentences(text: str, given: Sentences) -> bool:
    return holds(count_sentences(text), given.relation, given.num_sentences)


def _paragraphs(text: str, given: Paragraphs) -> bool:
    return len(blocks(text, "***")) == given.num_paragraphs


def _words(text: str, given: Words) -> bool:
    return holds(count_words(text), given.relation, given.num_words)


def _first_word(text: str, given: FirstWord) -> bool:
    paragraphs = text.split("\n\n")
    count = sum(bool(one.strip()) for one in paragraphs)
    words = paragraphs[given.nth_paragraph - 1].split() if given.nth_paragraph <= count else []
    first = regex.split(r"[.,?!'\"]", words[0].lstrip("'").lstrip('"'), maxsplit=1)[0] if words else None
    return count == given.num_paragraphs and first is not None and first.lower() == given.first_word.lower()


def _placeholders(text: str, given: Placeholders) -> bool:
    count = 0
    for line in text.split("\n"):
        at = 0
        while (start := line.find("[", at)) >= 0 and (end := line.find("]", start)) >= 0:
            count, at = count + 1, end + 1
    return count >= given.num_placeholders


def _postscript(text: str, given: Postscript) -> bool:
    marker = given.postscript_marker.strip()
    pattern = _POSTSCRIPTS.get(marker) or regex.escape(marker.lower(), special_only=True)
    return regex.search(pattern, text.lower()) is not None


def _bullets(text: str, given: Bullets) -> bool:
    lines = [line.lstrip() for line in text.split("\n")]
    stars = sum(line.startswith("*") and line[1:2] not in ("", "*") for line in lines)
    return stars + sum(line.startswith("-") for line in lines) == given.num_bullets


def _constrained(text: str, _: Arguments) -> bool:
    return any(answer in text for answer in _ANSWERS)


def _highlights(text: str, given: Highlights) -> bool:
    single = sum(bool(one.strip("*").strip()) for one in regex.findall(r"\*[^\n\*]*\*", text))
    double = sum(bool(one.strip("*").strip()) for one in regex.findall(r"\*\*[^\n\*]*\*\*", text))
    return single + double >= given.num_highlights


def _sections(text: str, given: Sections) -> bool:
    marker = regex.escape(given.section_spliter.strip(), special_only=True)
    return len(regex.findall(rf"{marker}\s?\d+", text)) >= given.num_sections


def _is_json(text: str, _: Arguments) -> bool:
    text = text.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str, _: Arguments) -> bool:
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and end - start >= 3 and line[start : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


def _two_responses(text: str, _: Arguments) -> bool:
    answers = blocks(text, "******")
    return len(answers) == 2 and answers[0] != answers[1]


def _repeats_prompt(text: str, given: PromptToRepeat) -> bool:
    return text.strip().lower().startswith(given.prompt_to_repeat.strip().lower())


def _ends_with(text: str, given: EndPhrase) -> bool:
    return text.strip().strip('"').lower().endswith(given.end_phrase.strip().lower())


def _capital_words(text: str, given: CapitalFrequency) -> bool:
    return holds(count_capital_words(text), given.capital_relation, given.capital_frequency)


def _english_capital(text: str, _: Arguments) -> bool:
    return text.isupper() and language_of(text) in ("en", None)


def _english_lowercase(text: str, _: Arguments) -> bool:
    return text.islower() and language_of(text) in ("en", None)


def _no_comma(text: str, _: Arguments) -> bool:
    return "," not in text


def _quotation(text: str, _: Arguments) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


IFEVAL_KINDS: Mapping[str, InstructionKind] = {
    "keywords:existence": InstructionKind(Keywords, _existence),
    "keywords:frequency": InstructionKind(KeywordFrequency, _frequency),
    "keywords:forbidden_words": InstructionKind(ForbiddenWords, _no_forbidden),
    "keywords:letter_frequency": InstructionKind(LetterFrequency, _letters),
    "language:response_language": InstructionKind(ResponseLanguage, _language),
    "length_constraints:number_sentences": InstructionKind(Sentences, _sentences),
    "length_constraints:number_paragraphs": InstructionKind(Paragraphs, _paragraphs),
    "length_constraints:number_words": InstructionKind(Words, _words),
    "length_constraints:nth_paragraph_first_word": InstructionKind(FirstWord, _first_word),
    "detectable_content:number_placeholders": InstructionKind(Placeholders, _placeholders),
    "detectable_content:postscript": InstructionKind(Postscript, _postscript),
    "detectable_format:number_bullet_lists": InstructionKind(Bullets, _bullets),
    "detectable_format:constrained_response": InstructionKind(Arguments, _constrained),
    "detectable_format:number_highlighted_sections": InstructionKind(Highlights, _highlights),
    "detectable_format:multiple_sections": InstructionKind(Sections, _sections),
    "detectable_format:json_format": InstructionKind(Arguments, _is_json),
    "detectable_format:title": InstructionKind(Arguments, _title),
    "combination:two_responses": InstructionKind(Arguments, _two_responses),
    "combination:repeat_prompt": InstructionKind(PromptToRepeat, _repeats_prompt),
    "startend:end_checker": InstructionKind(EndPhrase, _ends_with),
    "startend:quotation": InstructionKind(Arguments, _quotation),
    "change_case:capital_word_frequency": InstructionKind(CapitalFrequency, _capital_words),
    "change_case:english_capital": InstructionKind(Arguments, _english_capital),
    "change_case:english_lowercase": InstructionKind(Arguments, _english_lowercase),
    "punctuation:no_comma": InstructionKind(Arguments, _no_comma),
}
NEEDS_LANGUAGE = frozenset(
    ("language:response_language", "change_case:english_capital", "change_case:english_lowercase")
)
