"""Claims about servers that are not exact: the report says so."""

from typing import Any

import pytest

from paddock.lab.fidelity import BenchServer, NaiveServer
from paddock.lab.fidelity.clients import ClientSubject
from paddock.lab.fidelity.clients.mini_swe_agent import MiniSweAgent
from paddock.lab.fidelity.clients.opencode import OpencodeChat
from paddock.lab.fidelity.native import NativeSubject
from paddock.server.dialects import Answer
from paddock.server.recording_server import PendingCall
from paddock.types import Turn


async def test_a_history_that_is_tokenised_anew_is_not_append_only(run_subject: Any) -> None:
    found = await run_subject(NativeSubject("codex"), ("uncommon_ids",), server_type=NaiveServer)
    figures = found.total
    assert found.verdict == "split"
    assert figures.append_only == 0.0
    assert figures.forks == figures.calls - 1
    assert figures.dropped_whole_tokens > figures.sampled_tokens / 2


async def test_its_work_grows_with_the_turns(run_subject: Any) -> None:
    naive = (await run_subject(ClientSubject(MiniSweAgent), ("loop",), server_type=NaiveServer)).total
    ours = (await run_subject(ClientSubject(MiniSweAgent), ("loop",))).total
    assert ours.tokenising < 1.0
    assert naive.tokenising > 5.0
    assert naive.final_chars == ours.final_chars


@pytest.mark.parametrize(
    ("template", "scenario"),
    [
        ("stripped_reasoning", "talk"),
        ("no_reasoning", "reasoning"),
        ("compact_arguments", "loop"),
        ("merged_results", "parallel"),
        ("trimmed", "talk"),
    ],
)
async def test_each_pathology_shows_in_the_naive_way_alone(
    template: str, scenario: str, run_subject: Any, template_language: Any
) -> None:
    subject = ClientSubject(OpencodeChat)
    naive = await run_subject(subject, (scenario,), over=template_language(template), server_type=NaiveServer)
    ours = await run_subject(subject, (scenario,), over=template_language(template))
    assert (ours.verdict, ours.total.append_only) == ("exact", 1.0)
    assert naive.verdict == "split"
    assert naive.total.append_only < 1.0


class Retokenises(BenchServer):
    """Says that the engine sampled what its text would be tokenised to."""

    def _turn(self, pending: PendingCall, answer: Answer) -> Turn:
        turn = super()._turn(pending, answer)
        vocabulary = self.equipment.vocabulary
        assert turn.sampled_ids is not None
        ids = vocabulary.encode(vocabulary.decode(turn.sampled_ids))
        return turn.model_copy(update={"sampled_ids": ids, "log_probs": [-0.1] * len(ids), "usage": None})


class ShiftsLogProbs(BenchServer):
    """Puts each log-prob beside the token after its own."""

    def _turn(self, pending: PendingCall, answer: Answer) -> Turn:
        turn = super()._turn(pending, answer)
        assert turn.log_probs is not None
        return turn.model_copy(update={"log_probs": [*turn.log_probs[1:], turn.log_probs[0]]})


@pytest.mark.parametrize("liar", [Retokenises, ShiftsLogProbs])
async def test_a_record_that_the_engine_denies_is_masked(liar: type[BenchServer], run_subject: Any) -> None:
    found = await run_subject(NativeSubject("codex"), ("uncommon_ids",), server_type=liar)
    assert found.verdict == "masked"
    assert found.total.unproven_tokens > 0
    assert found.total.dropped_tokens == found.total.sampled_tokens
