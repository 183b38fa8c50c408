"""Reads which option an answer names, by the row's rule.

Places  each rule has places in a text where an answer stands (a box, a line with `Answer:`, a match of the row's
        pattern). A place gives a letter, or none: `Place`.
Choice  `committed`: all places that give a letter, after the last `</think>`, give the same; a thought that does not
        end is no answer. `nemo_gym`: the first place decides, of a pattern's matches the last; what NeMo-Gym's `mcqa`
        reads, letter for letter.
Time    linear in the text, but for the row's own patterns, which `paddock.patterns` bounds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import regex

from paddock.patterns import MATCH_CPU_S, captures
from paddock.resources_servers.choice.task import PATTERN_FLAGS, ChoiceTask, GradingMode
from paddock.types.responses import without_thought

Reading = Literal["committed", "nemo_gym"]
Place = str | None
Texts = Mapping[str, Sequence[str]]
"""Letter to the texts of that option."""

_MAX_WRAPS = 32
_BOX = "\\boxed{"
_BOXED_LETTER = regex.compile(r"\\boxed\{[^A-Za-z]*([A-Z])[^A-Za-z]*\}")
_TEXT_WRAP = regex.compile(r"\\text\{(.*)\}", regex.DOTALL)
_WRAPPED_LETTER = regex.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|mathit)\{\s*([A-Za-z])\s*\}")
_COLON = regex.compile(r"(?i)answer\s*:\s*(.+)")
_COLON_MARKDOWN = regex.compile(r"(?i)[*_]{0,2}Answer[*_]{0,2}\s*:[*_\s]{0,2}\s*([A-Z])(?![a-zA-Z0-9])")
_COLON_ANY_MARKS = regex.compile(r"(?i)answer[*_]*\s*:[*_\s(]*([A-Z])(?![a-zA-Z0-9])")
_NEXT_LETTER = regex.compile(r"[*_)\s]*(?:[,/&|;]|or\b|and\b)\s*[*_(]*([A-Z])(?![a-zA-Z0-9])")
"""A further letter after one: a list of answers is none."""
_LETTERS = str.maketrans(
    {
        **dict(zip("أبجد", (" A", " B", " C", " D"), strict=True)),
        **dict(zip("অবডঢ", (" A", " B", " C", " D"), strict=True)),
        **dict(zip("ＡＢＣＤ", (" A", " B", " C", " D"), strict=True)),
    }
)
"""Arabic, Bengali and full-width names of the first four options."""


class Choice(NamedTuple):
    """What an answer names: a letter, several, or none."""

    letter: str | None
    several: bool = False


def read_choice(text: str, task: ChoiceTask, reading: Reading, cpu_s: float = MATCH_CPU_S) -> Choice:
    """Read the choice of an answer's text. Raises PatternTooSlow where a pattern takes longer than `cpu_s`."""
    texts = task.texts
    committed = reading == "committed"
    if committed:
        answer = without_thought(text)
        if answer is None:
            return Choice(None)
        text = _WRAPPED_LETTER.sub(r"\1", answer)
    for pattern in task.patterns:
        places = [_captured(found, texts) for found in captures(pattern, text, flags=PATTERN_FLAGS, cpu_s=cpu_s)]
        choice = _all_of(places) if committed else Choice(places[-1] if places else None)
        if choice.letter is not None or choice.several:
            return choice
    if committed:
        return _all_of([place for read in _COMMITTED[task.grading_mode] for place in read(text, texts)])
    return Choice(next((place for read in _FIRST[task.grading_mode] if (place := next(read(text, texts), None))), None))


def _all_of(places: Sequence[Place]) -> Choice:
    letters = {place for place in places if place is not None}
    return Choice(letters.pop()) if len(letters) == 1 else Choice(None, several=bool(letters))


def _captured(found: str, texts: Texts) -> Place:
    captured = found.translate(_LETTERS).strip().upper()
    if len(captured) == 1 and captured.isalpha():
        return captured
    return _letter_of_text(captured, texts)


def _boxed_letters(text: str, texts: Texts) -> Iterator[Place]:
    for found in _BOXED_LETTER.finditer(text):
        yield found[1] if found[1] in texts else None


def _boxed_texts(text: str, texts: Texts) -> Iterator[Place]:
    """Give the one option whose text stands in a box; a box with a letter alone gives none."""
    at = 0
    while (start := text.find(_BOX, at)) >= 0 and (end := text.find("}", start)) >= 0:
        inner = text[start + len(_BOX) : end]
        contents = {_plain(inner), _plain(_unwrapped(inner))}
        letters = {letter for letter, of in texts.items() for one in of if _stands_in(_plain(one), contents)}
        yield letters.pop() if len(letters) == 1 else None
        at = end


def _boxed_whole_texts(text: str, texts: Texts) -> Iterator[Place]:
    """Give the option that a box holds and nothing else, which others' texts may be a part of."""
    at = 0
    while (start := text.find(_BOX, at)) >= 0 and (end := text.find("}", start)) >= 0:
        whole = _letter_of_text(text[start + len(_BOX) : end], texts)
        yield whole or next(_boxed_texts(text[start : end + 1], texts), None)
        at = end


def _colon_lines(text: str, texts: Texts) -> Iterator[Place]:
    for found in _COLON.finditer(text):
        answer = _unwrapped(found[1]).strip()
        letter = answer.upper() if len(answer) == 1 and answer.isalpha() else None
        yield letter if letter in texts else _letter_of_text(answer, texts)


def _colon_letters(text: str, texts: Texts) -> Iterator[Place]:
    for found in _COLON_MARKDOWN.finditer(text):
        letter = found[1].upper()
        yield letter if letter in texts else None


def _colon_letter_lists(text: str, texts: Texts) -> Iterator[Place]:
    for found in _COLON_ANY_MARKS.finditer(text):
        end = found.end()
        letters = [found[1].upper()]
        while (further := _NEXT_LETTER.match(text, end)) is not None:
            letters.append(further[1])
            end = further.end()
        yield from (letter if letter in texts else None for letter in letters)


Reader = Callable[[str, Texts], Iterator[Place]]
_FIRST: Mapping[GradingMode, Sequence[Reader]] = {
    "strict_single_letter_boxed": [_boxed_letters],
    "lenient_boxed": [_boxed_letters, _boxed_texts],
    "lenient_answer_colon": [_colon_lines],
    "lenient_answer_colon_md": [_colon_letters],
}
"""Each reader is asked where the one before it found none."""
_COMMITTED: Mapping[GradingMode, Sequence[Reader]] = {
    "strict_single_letter_boxed": [_boxed_letters],
    "lenient_boxed": [_boxed_letters, _boxed_whole_texts],
    "lenient_answer_colon": [_colon_lines],
    "lenient_answer_colon_md": [_colon_letter_lists],
}
"""What any of them finds counts."""


def _letter_of_text(answer: str, texts: Texts) -> Place:
    plain = _plain(answer)
    return next((letter for letter, of in texts.items() if any(_plain(one) == plain for one in of)), None)


def _stands_in(option: str, contents: set[str]) -> bool:
    return bool(option) and any(option in content for content in contents)


def _unwrapped(text: str) -> str:
    """Return the text without the `\\text{}` around it."""
    for _ in range(_MAX_WRAPS):
        found = _TEXT_WRAP.fullmatch(text)
        if found is None:
            break
        text = found[1].strip()
    return text


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
