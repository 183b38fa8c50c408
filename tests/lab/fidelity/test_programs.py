"""Claims about real programs in reports: what is tried, what is skipped, and that figures are those of real runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.programs import calc_fixture as e2e

from paddock.errors import ConfigError
from paddock.http import RESPONSES, Call, EventStream
from paddock.lab.fidelity import (
    SCENARIOS,
    Language,
    NaiveServer,
    ProgramSubject,
    ScenarioResult,
    ScenarioRun,
    available_subjects,
    bench,
    find_scenarios,
    find_subjects,
    program_subjects,
    report,
)
from paddock.lab.fidelity.bench import MODEL
from paddock.lab.fidelity.native import NativeSubject
from paddock.lab.fidelity.programs import ProgramToolset, lab_tools_of
from paddock.lab.fidelity.tables import as_json, lines
from paddock.sandbox import SandboxSettings
from paddock.sandbox.settings import default_home
from paddock.server.dialects import Dialect
from paddock.types import JsonObject


def test_a_program_is_tried_in_all_its_dialects() -> None:
    found = [(one.name, one.dialect) for one in find_subjects(["program:opencode_cli", "program:mini_swe_agent"])]
    opencode = [("program:opencode_cli", dialect) for dialect in ("chat", "responses", "messages")]
    assert sorted(found) == sorted(
        [*opencode, ("program:mini_swe_agent", "chat"), ("program:mini_swe_agent", "responses")]
    )
    assert {one.spec for one in program_subjects()} >= {"codex_cli", "opencode_cli", "mini_swe_agent", "openhands_sdk"}
    assert not any(isinstance(one, ProgramSubject) for one in find_subjects()), (
        "they take minutes: only where asked for"
    )


def test_our_own_code_is_no_program() -> None:
    with pytest.raises(ConfigError, match="it is no program"):
        find_subjects(["program:codex"])


async def test_one_that_is_not_installed_is_named_and_skipped(tmp_path: Path, thinking: Language) -> None:
    absent = ProgramSubject("codex_cli", "responses", SandboxSettings(home=tmp_path))
    chosen, missing = available_subjects([absent, NativeSubject("codex")])
    assert [one.name for one in chosen] == ["harness:codex"]
    found = await report(chosen, [thinking], find_scenarios(["cut"]), missing=missing)
    first, *_ = lines(found)
    assert first.startswith("program:codex_cli: skipped: harness codex_cli runs @openai/codex@")
    assert "paddock harness install codex_cli" in first
    assert as_json(found)["skipped"] == missing


@pytest.mark.parametrize("name", ["title", "retry", "forget"])
async def test_what_only_a_model_of_a_client_does_is_not_tried(thinking: Language, name: str) -> None:
    async with bench(thinking) as runner:
        assert await runner.run(ProgramSubject("codex_cli", "responses"), SCENARIOS[name]) is None


class AsksOverPeer:
    """Asks over the stage's peer as a program does."""

    name = "program:asks"
    dialect: Dialect = "responses"

    def __init__(self, *, stream: bool, twice: bool = False) -> None:
        self.stream = stream
        self.again = 2 if twice else 1
        self.texts: list[str] = []

    async def play(self, run: ScenarioRun) -> None:
        peer = run.peer(lambda _dialect, body: ProgramToolset(lab_tools_of("codex_cli"), body["tools"]))
        body: JsonObject = {"model": MODEL, "input": "go", "stream": self.stream, "tools": []}
        for _ in range(self.again):
            reply = await peer.call(RESPONSES, body, Call(), secret=run.secret)
            told = b"".join([event async for event in reply.events]) if isinstance(reply, EventStream) else str(reply)
            assert isinstance(told, bytes) is self.stream
            self.texts.append(str(told))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_program_is_answered_as_it_asks_and_the_same_twice(thinking: Language, stream: bool) -> None:
    once, twice = AsksOverPeer(stream=stream), AsksOverPeer(stream=stream, twice=True)
    async with bench(thinking) as runner:
        runs = [await runner.run(subject, SCENARIOS["reasoning"]) for subject in (once, twice)]
    first, second = (run.figures for run in runs if run is not None)
    assert (first.verdict, first.calls, second.calls) == ("exact", 1, 1)
    assert all("exec_command" in text and "notes-0.txt" in text for text in [*once.texts, *twice.texts])
    assert 0 < first.tokenised_chars <= first.final_chars
    assert second.tokenised_chars == first.tokenised_chars, "what is known is not tokenised again"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    yield from e2e.program_home()


async def _tried(spec: str, home: Path, language: Language, *names: str, **over: Any) -> list[ScenarioResult]:
    e2e.require(spec)
    settings = SandboxSettings(home=home, runtime="bubblewrap", programs_of=default_home())
    (subject, *_) = program_subjects([spec])
    found = await report([subject._replace(settings=settings)], [language], find_scenarios(names), **over)
    runs = found.combinations[0].runs
    assert [run.problem for run in runs] == [None for _ in names]
    return runs


@pytest.mark.slow
@pytest.mark.sandbox
async def test_codex_keeps_its_history_and_all_of_it_is_exact(home: Path, thinking: Language) -> None:
    for run in await _tried("codex_cli", home, thinking, "loop", "parallel", "malformed"):
        turns = SCENARIOS[run.scenario].turns
        assert (run.verdict, run.figures.forks, run.figures.append_only) == ("exact", 0, 1.0)
        assert (run.requests, run.figures.calls) == (len(turns) + 1, len(turns) + 1)
        assert run.figures.tokenising < 1


@pytest.mark.slow
@pytest.mark.sandbox
async def test_forks_are_counted_where_the_past_is_not_as_it_was(home: Path, thinking: Language) -> None:
    for run in await _tried("codex_cli", home, thinking, "uncommon_ids", server_type=NaiveServer):
        assert (run.verdict, run.figures.dropped_tokens) == ("split", 0)
        assert run.figures.append_only == 0
        assert run.figures.forks == run.figures.calls - 1
    for run in await _tried("mini_swe_agent", home, thinking, "malformed"):
        assert (run.verdict, run.figures.dropped_tokens) == ("split", 0), (
            "it asks again, without what it could not read"
        )
        assert run.figures.forks > 0
