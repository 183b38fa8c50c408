"""Claims about what programs send: the records that the package has hold no prose of theirs, and the programs send just
that.

Program of the home that `paddock.sandbox` finds; a claim about one that is not installed there is skipped.
"""

import inspect
from pathlib import Path
from typing import Any

import pytest

from paddock import harnesses
from paddock.errors import ConfigError
from paddock.lab.wirelab import (
    SCENARIOS,
    WireRecord,
    WireSubject,
    dump_record,
    find_subject,
    is_recordable,
    our_texts,
    read_record,
    record,
    report,
)
from paddock.lab.wirelab.scenarios import find_scenarios
from paddock.sandbox.failures import RuntimeMissing

RECORDED = Path(__file__).parent / "recorded"
HARNESSES = Path(inspect.getfile(harnesses)).resolve().parent
FILES = sorted([*HARNESSES.glob("*/golden/*.json"), *RECORDED.glob("*.json")])
LONG = ("codex_cli", "mini_swe_agent", "opencode_cli", "openhands_sdk", "openhands_v0")
"""Tried where there is time, as are other versions: each takes minutes."""


UNSTEADY = {("codex_cli", "0.63.0"): ("huge_output",)}
"""Scenarios by version: this one cuts a long output where it likes."""


def name_of(file: Path) -> str:
    return f"{file.parent.parent.name}/{file.stem}" if file.parent.name == "golden" else file.stem


def slow_param(file: Path) -> Any:
    is_long = file.parent == RECORDED or any(file.is_relative_to(HARNESSES / name) for name in LONG)
    return pytest.param(file, id=name_of(file), marks=pytest.mark.long if is_long else pytest.mark.slow)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


def subject_of(found: WireRecord) -> WireSubject:
    return find_subject(found.program, version=found.version, dialect=found.dialect, block=found.settings)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_prose_of_a_program_is_in_a_record(file: Path) -> None:
    found = read_record(file)
    tools = subject_of(found).tools
    scenarios = {one.name: one for one in SCENARIOS}
    for name, run in found.runs.items():
        own = set(our_texts(scenarios[name], tools))
        assert [text for one in run.requests for text in strings(one.body) if not is_recordable(text, own)] == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_record_has_all_scenarios_of_its_program_and_is_as_it_would_be_written(file: Path) -> None:
    found = read_record(file)
    tools = subject_of(found).tools
    assert list(found.runs) == [one.name for one in find_scenarios([], tools)]
    assert len(found.runs) >= (6 if tools.core_only else 20)
    assert dump_record(found) == file.read_text()


@pytest.mark.parametrize("name", sorted({file.parent.parent.name for file in HARNESSES.glob("*/golden/*.json")}))
def test_a_program_is_recorded_in_its_pinned_version_and_each_of_its_dialects(name: str) -> None:
    pinned = find_subject(name).program.version
    expected = {
        HARNESSES / name / "golden" / f"{pinned}.{dialect}.json" for dialect in find_subject(name).tools.dialects
    }
    assert expected <= set(FILES)


@pytest.mark.sandbox
@pytest.mark.parametrize("file", [slow_param(file) for file in FILES])
async def test_a_program_sends_what_is_recorded(file: Path) -> None:
    found = steady(read_record(file))
    subject = subject_of(found)
    try:
        sent = steady(await record(subject))
    except (ConfigError, RuntimeMissing) as error:
        pytest.skip(str(error))
    assert report(found, sent) == ""
    assert dump_record(sent) == dump_record(found)


def steady(record: WireRecord) -> WireRecord:
    """Without what is another each time."""
    out = UNSTEADY.get((record.program, record.version), ())
    return record.model_copy(update={"runs": {name: run for name, run in record.runs.items() if name not in out}})
