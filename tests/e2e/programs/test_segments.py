"""Claims about compaction and sub-agents: what a program does apart is a branch of its rollout, with its one verdict.

The engine is exact and scripted: every sampled id has to be in exactly one sample, where branches are samples.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.programs import calc_fixture
from tests.sampling import few

from paddock.testing.engines import ScriptedEngine, scripted_server
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens.export import inline, rollout_samples, skipped
from paddock.training.nemo_rl.checks import check_result
from paddock.training.nemo_rl.postprocess import postprocess
from paddock.types import Rollout, TurnRecord

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
SUMMARY = "So far: nothing was changed."


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


async def played(
    harness: str, home: Path, folder: Path, answer: Callable[[str, int], str], **settings: Any
) -> tuple[Rollout, ScriptedEngine]:
    """One rollout; `answer` gets the prompt's text and the number of the call."""
    vocabulary = small_vocabulary()
    made = 0

    def answers_in(prompt: list[int]) -> str:
        nonlocal made
        made += 1
        return answer(vocabulary.decode(prompt), made)

    engine = ScriptedEngine(vocabulary, answers_in)
    server = scripted_server(folder, answers_in, engine=engine)
    async with calc_fixture.open_fixture(harness, home, server, harness_config=settings, agent_max_turns=12) as fixture:
        rollout = await fixture.run(5)
    return rollout, engine


def require_branches(rollout: Rollout, engine: ScriptedEngine, *, at_least: int) -> None:
    """Each a sample of its own, or masked, by how samples are asked for."""
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), rollout.failure
    samples = list(rollout_samples(rollout, "branch"))
    assert len(samples) >= at_least
    assert {line.reward for line in samples} == {1.0}
    sampled = Counter(tuple(one.sampled) for one in engine.calls)
    exported = Counter(
        tuple(line.sample.ids[span.start : span.end]) for line in samples for span in line.sample.spans if span.trained
    )
    assert exported == sampled
    whole = list(rollout_samples(rollout, "whole"))
    assert len(whole) <= 1
    assert rollout.engine is not None
    record = TurnRecord(engine=rollout.engine, turns=rollout.turns)
    masked = {one.turn for one in skipped(record, "whole")}
    trained = {turn.id for turn in rollout.turns} - masked
    assert len(masked) >= at_least - 1
    assert sum(span.trained for line in whole for span in line.sample.spans) == len(trained)
    result = inline(rollout)
    assert check_result(result) == []
    assert postprocess(result).first_prompt == rollout.turns[0].prompt_ids
    assert result["instance_config"]["off_path_turns"] >= at_least - 1


COMPACTING = {"codex_cli": ("exec_command", "cmd", 2), "opencode_cli": ("bash", "command", 3)}
"""Shell tool, its argument, and the call that asks for the summary: Codex reckons with a result before it sends it."""


@pytest.mark.parametrize("harness", few(COMPACTING, ["codex_cli"], pytest.mark.long))
async def test_a_history_that_is_summed_up_goes_on_as_another_branch(harness: str, home: Path, tmp_path: Path) -> None:
    calc_fixture.require(harness)
    tool, argument, summary = COMPACTING[harness]

    first, _ = await played(harness, home, tmp_path / "first", lambda _prompt, _nth: "I am done.")
    length = len(first.turns[0].prompt_ids or ())

    def answer(prompt: str, nth: int) -> str:
        answers_in = [call(tool, **{argument: "seq 1 400"}), call(tool, **{argument: calc_fixture.FIX})]
        answers_in.insert(summary - 1, SUMMARY)
        return answers_in[nth - 1] if nth <= len(answers_in) else "I am done."

    rollout, engine = await played(harness, home, tmp_path, answer, compact_at_tokens=length + 400)
    require_branches(rollout, engine, at_least=2)
    assert SUMMARY in "".join(small_vocabulary().decode(one.prompt) for one in engine.calls[summary:])


async def test_a_sub_agents_turns_are_a_branch_of_the_rollout(home: Path, tmp_path: Path) -> None:
    calc_fixture.require("opencode_cli")

    def answer(prompt: str, nth: int) -> str:
        if nth == 1:
            return call("task", description="look", prompt="Look at calc.py.", subagent_type="general")
        if nth == 2:
            return call("bash", command="cat calc.py", description="look")
        if nth == 3:
            return "It subtracts."
        return call("bash", command=calc_fixture.FIX, description="fix") if nth == 4 else "I am done."

    rollout, engine = await played("opencode_cli", home, tmp_path, answer, subagents=True)
    require_branches(rollout, engine, at_least=2)
    assert len(rollout.turns) == 5
