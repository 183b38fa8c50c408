"""Claims about prompts beside the template's own: what differs is called exact by nobody, and told in words."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.families import FAMILIES

from paddock.lab.fidelity import BenchServer, FidelityReport, Language, language
from paddock.lab.fidelity.clients import ClientSubject
from paddock.lab.fidelity.clients.mini_swe_agent import MiniSweAgent
from paddock.lab.fidelity.clients.qwen_code import QwenCode
from paddock.lab.fidelity.native import NativeSubject
from paddock.lab.fidelity.policy import answer_stops
from paddock.lab.fidelity.tables import as_json, lines
from paddock.server.recording_server import PendingCall
from paddock.testing.vocabularies import write_model_folder

PLAIN = ("loop", "malformed", "talk", "spelling", "retry", "nudged", "cut")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Language]:
    languages: dict[str, Language] = {}

    def get(name: str) -> Language:
        if name not in languages:
            folder: Path = tmp_path_factory.mktemp("models") / name
            one = FAMILIES[name]
            write_model_folder(folder, marks=one.marks, chat_template=one.source)
            languages[name] = language("", model=folder)
        return languages[name]

    return get


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "differing"),
    [
        ("role_marks", {"nudged": ["the prompt has '<|observation|>' where the template writes nothing"]}),
        (
            "channels",
            {
                "talk": ["the prompt has '<|return|>' where the template writes '<|end|>'"],
                "nudged": ["the prompt has '<|call|>' where the template writes '<|end|>'"],
            },
        ),
        ("one_turn", {"nudged": ["the prompt has '<|tool_response>' where the template writes nothing"]}),
        ("pasted_arguments", {}),
        ("needs_tools", {}),
    ],
)
async def test_a_family_is_exact_where_its_own_stops_are_sampled(
    name: str, differing: dict[str, list[str]], run_subject: Any, family: Any
) -> None:
    found = await run_subject(ClientSubject(MiniSweAgent), PLAIN, over=family(name))
    assert {run.scenario: run.differences for run in found.runs if run.verdict != "exact"} == differing
    assert all(run.verdict == "differs" for run in found.worse)
    assert (found.total.dropped_tokens, found.total.append_only) == (0, 1.0)


def test_a_policy_ends_its_answers_as_the_template_does(family: Any, thinking: Language) -> None:
    def texts(one: Language) -> list[str]:
        return [one.vocabulary.decode([each]) for each in answer_stops(one.prompter, one.policy_vocabulary)]

    assert texts(family("role_marks")) == ["<|user|>", "<|observation|>"]
    assert texts(family("channels")) == ["<|return|>", "<|call|>"]
    assert texts(family("one_turn")) == ["<turn|>", "<|tool_response>"]
    assert texts(thinking) == ["<|im_end|>", "<|im_end|>"]


class Forgets(BenchServer):
    """Leaves out the mark of who speaks next."""

    def _new_ids(self, pending: PendingCall, before: Sequence[int]) -> list[int]:
        ids = super()._new_ids(pending, before)
        return ids if pending.match.turn is None else ids[1:]


class Begins(BenchServer):
    """Begins a prompt otherwise."""

    def _new_ids(self, pending: PendingCall, before: Sequence[int]) -> list[int]:
        ids = super()._new_ids(pending, before)
        return [*ids[2:4], *ids] if pending.match.turn is None else ids


class Adds(BenchServer):
    """Says something of its own between two answers."""

    def _new_ids(self, pending: PendingCall, before: Sequence[int]) -> list[int]:
        ids = super()._new_ids(pending, before)
        return ids if pending.match.turn is None else [*self.equipment.vocabulary.encode(" So:"), *ids]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server_type", "message"),
    [
        (Forgets, "the prompt has nothing where the template writes"),
        (Begins, "where the template writes nothing"),
        (Adds, "where the template writes"),
    ],
)
@pytest.mark.parametrize("template", ["thinking", "merged_results", "stripped_reasoning"])
async def test_a_server_whose_prompts_are_not_the_templates_is_found_out(
    server_type: type[BenchServer], message: str, template: str, run_subject: Any, template_language: Any
) -> None:
    over = template_language(template)
    for subject in (ClientSubject(QwenCode), NativeSubject("codex")):
        found = await run_subject(subject, ("loop", "reasoning"), over=over, server_type=server_type)
        assert (found.verdict, [run.figures.verdict for run in found.runs]) == ("differs", ["exact", "exact"])
        assert all(message in each for run in found.runs for each in run.differences)


async def test_what_differs_is_in_the_report(run_subject: Any, family: Any) -> None:
    one = await run_subject(ClientSubject(MiniSweAgent), ("nudged", "loop"), over=family("role_marks"))
    found = FidelityReport(combinations=[one], templates=[], wall_s=1.0)
    message = "the prompt has '<|observation|>' where the template writes nothing"
    assert list(lines(found)) == [
        f"client:mini_swe_agent over role_marks: {message} (nudged)",
        "1 combinations, 2 runs in 1.0 s: 1 differs",
    ]
    runs = as_json(found)["combinations"][0]["runs"]
    assert [(run["scenario"], run["verdict"], run["differences"]) for run in runs] == [
        ("nudged", "differs", [message]),
        ("loop", "exact", []),
    ]
    assert found.worse_than("split") == [one]
