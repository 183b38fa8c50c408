"""Placeholder rows, which only point at a question of another data set: filled from that data set's files.

Source  the RLVR blends of Nemotron 3 Super. A placeholder is `_hf_placeholder: {row, question_template}`;
        `dataset` says whose row. The two sources word their prompts differently (`RESTORE`).
Law     rows without the key are copied byte for byte; all other keys of a filled row stay. A row that can't be filled
        is left out and named, never guessed. Sources are read once, from their first row to the last needed.
Memory  one row; answers are held in a temporary file.
Errors  ConfigError where a source is needed and not named.
"""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.collect.new_file import new_file, refuse_same
from paddock.errors import ConfigError
from paddock.training.data.blends import PUBLISHED, SOURCES
from paddock.training.data.tables import encode, numbered_lines, read_table, tables_in
from paddock.types import JsonObject

PLACEHOLDER_KEY = "_hf_placeholder"
_MARK_BYTES = f'"{PLACEHOLDER_KEY}"'.encode()


class UnfilledError(ValueError):
    """A placeholder can't be filled; the message says why."""


class RowPointer(NamedTuple):
    """The row that a placeholder points at."""

    source: str
    """Short name, as in `PUBLISHED`."""
    row: int
    """Its index, from 0 over all its files."""
    template: Any


class FilledFile(NamedTuple):
    """The result of filling one file."""

    target: Path
    n_unchanged: int
    """How many rows had no placeholder."""
    n_filled: Counter[str]
    """How many rows were filled, by source."""
    problems: list[str]
    """A line for each row that was left out."""


class Answers:
    """Questions and answers of the wanted rows of one source. To be closed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its owner
        self._starts: dict[int, int] = {}
        self._problems: dict[int, str] = {}
        self.n_rows = 0
        """How many rows were read: all, or up to the last wanted one."""

    def read(self, places: Iterable[Path], wanted: set[int]) -> None:
        left = len(wanted)
        for entry in _rows(places):
            if not left:
                break
            if self.n_rows in wanted:
                left -= 1
                self._keep(self.n_rows, entry.row, entry.problem, entry.where)
            self.n_rows += 1

    def __getitem__(self, index: int) -> tuple[str, Any]:
        """The question as it stands in the source, and the answer. UnfilledError where there is none."""
        if index in self._problems:
            raise UnfilledError(self._problems[index])
        if index not in self._starts:
            raise UnfilledError(f"row {index} is beyond the source's {self.n_rows} rows")
        self._file.seek(self._starts[index])
        question, answer = orjson.loads(self._file.readline())
        return question, answer

    def close(self) -> None:
        self._file.close()

    def _keep(self, index: int, row: JsonObject, problem: str, where: str) -> None:
        prompt = row.get("prompt")
        first = prompt[0] if isinstance(prompt, list) and prompt else None
        question = first.get("content") if isinstance(first, dict) else None
        graded = row.get("reward_model")
        answer = graded.get("ground_truth") if isinstance(graded, dict) else None
        if problem or not isinstance(question, str):
            self._problems[index] = f"{where}: {problem or 'has no text in prompt.0.content'}"
            return
        if answer is None:
            self._problems[index] = f"{where}: has nothing in reward_model.ground_truth"
            return
        self._starts[index] = self._file.tell()
        self._file.write(orjson.dumps([question, answer], option=orjson.OPT_APPEND_NEWLINE))


def fill(sources: Iterable[Path], folder: Path, places: Mapping[str, Path]) -> Iterator[FilledFile]:
    """Fill files into files of the same names; `places`: file or folder of each source by its short name."""
    paths = list(sources)
    for path in paths:
        refuse_same(path, folder / path.name)
    wanted = _wanted_rows(paths)
    missing = [name for name in wanted if name not in places]
    if missing:
        needs = "; ".join(
            f"{len(wanted[name])} rows of {PUBLISHED[name].repo}: --source {name}=PLACE" for name in missing
        )
        raise ConfigError(f"placeholders need {needs}. `paddock data download NAME` fetches one", kind="source_missing")
    with ExitStack() as stack:
        answers = {name: stack.enter_context(closing(Answers())) for name in wanted}
        for name, rows in wanted.items():
            answers[name].read(tables_in(places[name], split=PUBLISHED[name].split), rows)
        for path in paths:
            yield _fill_file(path, folder / path.name, answers)


def restore_dapo(question: str, template: Any) -> str:
    """The question with the template's frame in place of the source's own, which is its first and last block."""
    if not isinstance(template, Mapping) or not {"prefix", "suffix"} & set(template):
        raise UnfilledError("question_template: needs an object with `prefix` and `suffix`")
    blocks = question.split("\n\n")
    inner = "\n\n".join(blocks[1:-1]) if len(blocks) > 2 else question
    return f"{template.get('prefix') or ''}{inner}{template.get('suffix') or ''}".rstrip("\n")


def restore_skywork(question: str, template: Any) -> str:
    if not isinstance(template, str) or "{question}" not in template:
        raise UnfilledError("question_template: needs a text with {question}")
    return template.replace("{question}", question)


RESTORE: dict[str, Callable[[str, Any], str]] = {"dapo": restore_dapo, "skywork": restore_skywork}
KEEPS_QUESTION = {"skywork"}
"""Sources whose rows keep the question of the source beside the prompt."""


def plain_answer(answer: Any) -> Any:
    """The answer out of its JSON: of a list the first, of an object the first value; other text as it is."""
    if not isinstance(answer, str):
        return answer
    try:
        value = json.loads(answer, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return answer
    if isinstance(value, list) and value:
        return value[0]
    if isinstance(value, dict) and value:
        return next(iter(value.values()))
    return answer if isinstance(value, float) and not math.isfinite(value) else value


def _fill_file(path: Path, target: Path, answers: Mapping[str, Answers]) -> FilledFile:
    filled = FilledFile(target, 0, Counter(), [])
    n_unchanged = 0
    with new_file(target) as file:
        for number, text in numbered_lines(path):
            if _MARK_BYTES not in text:
                file.write(text if text.endswith(b"\n") else text + b"\n")
                n_unchanged += 1
                continue
            try:
                row, pointer = _read(text)
                if pointer is not None:
                    _fill_row(row, pointer, answers[pointer.source])
            except UnfilledError as error:
                filled.problems.append(f"{path}:{number}: {error}")
                continue
            if pointer is None:
                n_unchanged += 1
            else:
                filled.n_filled[pointer.source] += 1
            file.write(encode(row))
    return filled._replace(n_unchanged=n_unchanged)


def _fill_row(row: JsonObject, pointer: RowPointer, answers: Answers) -> None:
    question, answer = answers[pointer.row]
    prompt = RESTORE[pointer.source](question, pointer.template)
    row["question"] = question if pointer.source in KEEPS_QUESTION else prompt
    row["expected_answer"] = plain_answer(answer)
    params = row.get("responses_create_params")
    row["responses_create_params"] = {
        **(params if isinstance(params, dict) else {}),
        "input": [{"role": "user", "content": prompt}],
    }


def _read(text: bytes) -> tuple[JsonObject, RowPointer | None]:
    """A row without its placeholder, and what that points at; None: the key only occurs in a text of the row."""
    try:
        row = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnfilledError(f"no JSON: {error}") from error
    if not isinstance(row, dict) or PLACEHOLDER_KEY not in row:
        return row, None
    mark = row.pop(PLACEHOLDER_KEY)
    name = row.get("dataset")
    if not isinstance(name, str) or name not in SOURCES:
        raise UnfilledError(f"dataset: {name!r} is no known source; known: {', '.join(SOURCES)}")
    index = mark.get("row") if isinstance(mark, dict) else None
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise UnfilledError(f"{PLACEHOLDER_KEY}.row: needs an index from 0, got {index!r}")
    return row, RowPointer(SOURCES[name], index, mark.get("question_template"))


def _wanted_rows(paths: Iterable[Path]) -> dict[str, set[int]]:
    rows: dict[str, set[int]] = {}
    for path in paths:
        for _, text in numbered_lines(path):
            if _MARK_BYTES in text:
                try:
                    pointer = _read(text)[1]
                except UnfilledError:
                    continue  # named where its file is filled
                if pointer is not None:
                    rows.setdefault(pointer.source, set()).add(pointer.row)
    return rows


def _rows(places: Iterable[Path]) -> Iterator[Any]:
    for path in places:
        yield from read_table(path)


def _refuse(word: str) -> Any:
    raise ValueError(word)
