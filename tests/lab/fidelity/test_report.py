"""Claims about reports: what is tried, how runs add up to a combination, what a reader sees."""

from pathlib import Path
from typing import Any

import pytest

from paddock.conformance.behaviours import NotApplicable
from paddock.errors import ConfigError
from paddock.lab.fidelity import (
    SCENARIOS,
    Combination,
    FidelityReport,
    Figures,
    PolicyTurn,
    Scenario,
    ScenarioResult,
    ScenarioRun,
    TemplateTraits,
    Verdict,
    bench,
    find_scenarios,
    find_subjects,
    language,
    language_names,
    report,
    worst,
)
from paddock.lab.fidelity.native import NativeSubject
from paddock.lab.fidelity.tables import HEADER, as_json, lines, rows, trait_rows
from paddock.lab.fidelity.workspace import ScriptedWorkspace, command_output
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.tokens import PromptTraits


def figures(verdict: Verdict = "exact", **changed: int) -> Figures:
    counts = dict.fromkeys((name for name in Figures.model_fields if name != "verdict"), 0)
    plain = {"calls": 4, "continuing": 3, "branches": 1, "sampled_tokens": 10, "sample_tokens": 20}
    return Figures(verdict=verdict, **{**counts, **plain, "distinct_tokens": 20, "final_chars": 100, **changed})


def ran(scenario: str, found: Figures, *, by_design: int = 0, problem: str | None = None) -> ScenarioResult:
    return ScenarioResult(scenario=scenario, requests=4, branches_by_design=by_design, problem=problem, figures=found)


def combined(template: str, *runs: ScenarioResult, subject: str = "harness:x") -> Combination:
    return Combination(subject=subject, dialect="responses", template=template, runs=list(runs))


def test_the_worst_run_decides() -> None:
    assert worst(["exact", "masked", "split"]) == "masked"
    assert worst([]) == "exact"
    both = combined("t", ran("a", figures()), ran("b", figures("split", branches=2)))
    assert (both.verdict, [run.scenario for run in both.worse]) == ("split", ["b"])


def test_branches_that_a_client_means_are_no_fault_but_more_are() -> None:
    assert ran("title", figures("split", branches=2), by_design=1).verdict_in_combination == "exact"
    assert ran("title", figures("split", branches=3), by_design=1).verdict_in_combination == "split"
    assert ran("title", figures("masked", branches=2), by_design=1).verdict_in_combination == "masked"
    assert ran("loop", figures(), problem="refused").verdict == "failed"


def test_a_combination_sums_its_runs_but_those_that_branch_by_design() -> None:
    found = combined(
        "t",
        ran("a", figures(calls=3, continuing=2)),
        ran("b", figures("split", branches=3, calls=5, continuing=2, sample_tokens=40, tokenised_chars=50)),
        ran("title", figures("split", branches=2, continuing=0), by_design=1),
    )
    total = found.total
    assert (total.append_only, total.forks, total.sampled_tokens) == (4 / 6, 2, 20)
    assert (total.prefix_factor, total.tokenising) == (60 / 40, 50 / 200)


def test_alike_templates_share_a_row() -> None:
    good, bad = ran("a", figures()), ran("a", figures("split", branches=3, continuing=0))
    names = ["one", "two", "three"]
    traits = [TemplateTraits(template=name, traits=PromptTraits()) for name in names]
    whole = FidelityReport(
        combinations=[
            combined("one", good),
            combined("one", good, subject="client:y"),
            combined("two", bad),
            combined("two", good, subject="client:y"),
            combined("three", good),
            combined("three", ran("a", figures(calls=0, branches=0), problem="no"), subject="client:y"),
        ],
        templates=traits,
        wall_s=1.5,
    )
    found = [dict(zip(HEADER, row.cells, strict=True)) for row in rows(whole)]
    heads = [(row["harness"], row["templates"], row["verdict"], row["forks"], row["not exact"]) for row in found]
    assert heads == [
        ("harness:x", "one, three", "exact", "0", ""),
        ("harness:x", "two", "split", "2", "a"),
        ("client:y", "one, two", "exact", "0", ""),
        ("client:y", "three", "failed", "-", "a"),
    ]
    assert [row["append-only"] for row in found] == ["100.0%", "0.0%", "100.0%", "-"]
    assert [row.cells for row in trait_rows(whole)] == [(name, "nothing") for name in names]
    assert list(lines(whole)) == [
        "client:y over three: no (a)",
        "6 combinations, 6 runs in 1.5 s: 4 exact, 1 split, 1 failed",
    ]


def test_the_wire_form_has_each_run_and_the_rates() -> None:
    whole = FidelityReport(combinations=[combined("one", ran("a", figures()))], templates=[], wall_s=0.1)
    (one,) = as_json(whole)["combinations"]
    assert (one["verdict"], one["append_only"], one["forks"]) == ("exact", 1.0, 0)
    assert [(run["scenario"], run["verdict"], run["calls"]) for run in one["runs"]] == [("a", "exact", 4)]


def test_everything_is_tried_unless_named() -> None:
    everything = find_subjects()
    assert {one.name for one in everything} >= {"harness:codex", "client:codex_cli", "client:claude_code"}
    assert [one.dialect for one in find_subjects(["client:opencode_cli"])] == ["chat", "responses", "messages"]
    assert [one.name for one in find_subjects(["codex", "harness:codeact"])] == ["harness:codex", "harness:codeact"]
    assert find_scenarios() == list(SCENARIOS.values())
    assert find_scenarios(["cut"]) == [SCENARIOS["cut"]]
    assert language_names() == ["thinking", *TEMPLATES]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: find_subjects(["client:codex"]), "nearest: `codex_cli`"),
        (lambda: find_scenarios(["loops"]), "nearest: `loop`"),
        (lambda: language("thinkin"), "nearest: `thinking`"),
    ],
)
def test_a_name_that_is_none_is_an_error_with_the_nearest(ask: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask()


async def test_a_harness_that_asks_from_a_sandbox_is_refused(thinking: Any) -> None:
    class AsksFromSandbox(NativeSubject):
        def _harness(self, block: Any) -> Any:
            class AsksEndpoint:
                async def run(self, task: Any, workspace: Any, model: Any, limits: Any, report: Any) -> Any:
                    await model.endpoint()

            return AsksEndpoint()

    async with bench(thinking) as runner:
        with pytest.raises(ConfigError, match="no native one"):
            await runner.run(AsksFromSandbox("program"), SCENARIOS["loop"])


class Fails(NativeSubject):
    """A harness that breaks."""

    async def play(self, run: ScenarioRun) -> None:
        raise self._error() if self.spec == "raises" else NotApplicable("no shell")

    def _error(self) -> Exception:
        return KeyError("gone")


async def test_a_harness_that_breaks_is_a_failed_run(thinking: Any) -> None:
    async with bench(thinking) as runner:
        run = await runner.run(Fails("raises"), SCENARIOS["loop"])
    assert run is not None
    assert (run.verdict, run.problem) == ("failed", "KeyError: 'gone'")


async def test_a_harness_that_nothing_can_be_tried_with_is_refused(thinking: Any) -> None:
    with pytest.raises(ConfigError, match="none of the scenarios"):
        await report([Fails("skips")], [thinking], find_scenarios())


@pytest.mark.slow
async def test_a_harness_that_is_stopped_by_a_limit_is_a_failed_run(thinking: Any) -> None:
    async with bench(thinking) as runner:
        many = Scenario("many", (PolicyTurn(),) * 100)
        run = await runner.run(NativeSubject("codex"), many)
    assert run is not None
    assert (run.verdict, run.problem) == ("failed", "it ended as turn_limit")


def test_a_model_folder_brings_its_vocabulary_and_template(tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "mine", marks="headers", chat_template=TEMPLATES["headers"].source)
    found = language("", model=folder)
    assert (found.name, found.prompter.traits.adds_bos) == ("mine", "at_start")
    template = tmp_path / "other.jinja"
    template.write_text(TEMPLATES["headers"].source)
    assert language(str(template), model=folder).name == "other"


def test_a_model_without_a_template_needs_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name one with --template"):
        language("", model=write_model_folder(tmp_path / "bare"))


async def test_a_scripted_workspace_prints_by_file_and_runs_nothing(tmp_path: Path) -> None:
    scenario = Scenario("s", (PolicyTurn(output_chars=10), PolicyTurn(output_chars=400)))
    space = ScriptedWorkspace(scenario)
    assert command_output(scenario, "cat notes-0.txt").count("\n") == 1
    assert 300 < len(command_output(scenario, "cat notes-1.txt")) < 600
    assert command_output(scenario, "cat notes-2.txt") == command_output(scenario, "ls") == ""
    template_language = tmp_path / "made"
    assert (await space.exec(["touch", str(template_language)])).output == b""
    line = await (await space.shell()).run(f"touch {template_language}; cat notes-0.txt")
    assert (line.output.decode(), template_language.exists()) == (command_output(scenario, "notes-0.txt"), False)
    await space.write("a", b"x")
    assert await space.read("a") == b"x"
    with pytest.raises(FileNotFoundError):
        await space.read("b")
