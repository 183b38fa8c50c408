"""Claims about the end of a program: what the policy brought about is an exit, all else a failure without a reward."""

import time
from typing import Any

import pytest

from paddock.errors import InfraError
from paddock.harness import ProgramOutput, RunLimits
from paddock.harness.programs.exit_status import exit_of
from paddock.harness.programs.step_recorder import RequestRules, StepRecorder
from paddock.sandbox.records import MemoryKill
from paddock.testing.native import ModelWithoutPrograms
from paddock.types import JsonObject, TurnSummary
from paddock.types.responses import message_item

KILLED = (MemoryKill(command="codex", memory_mib=900, limit_mib=800),)
LIMITS = RunLimits(max_turns=3, max_tokens=100, time_s=10)


class RecordedModel(ModelWithoutPrograms):
    name = "policy"

    def __init__(self, *, turns: int, tokens: int, overflowed: bool, reason: Any) -> None:
        self.overflowed = overflowed
        self._turns = [
            TurnSummary(
                id=str(n), parent=None, finish_reason=reason, output=[message_item("Hm.")], sampled_tokens=tokens
            )
            for n in range(turns)
        ]

    async def respond(self, body: JsonObject) -> JsonObject:
        raise AssertionError

    async def transcript(self, skip: int = 0) -> list[TurnSummary]:
        return self._turns[skip:]


async def ended(
    code: int,
    *,
    turns: int = 2,
    tokens: int = 1,
    overflowed: bool = False,
    reason: Any = "stop",
    killed: Any = (),
    after_s: float = 0.0,
    stderr: bytes = b"",
    inside: bool = True,
) -> str:
    model = RecordedModel(turns=turns, tokens=tokens, overflowed=overflowed, reason=reason)
    recorder = StepRecorder(model, lambda _step: None, rules=RequestRules(), note=lambda _line: None)
    await recorder.finish()
    done = ProgramOutput(code, b"", stderr, killed)
    exit_ = exit_of("codex 1.0", done, recorder, model, LIMITS, time.monotonic() - after_s, inside=inside)
    assert (exit_.turns, exit_.final) == (turns, "Hm.")
    return exit_.ended


async def test_its_own_success_is_an_end() -> None:
    assert await ended(0) == "finished"


@pytest.mark.parametrize("code", [0, 1, 137])
async def test_a_refused_call_names_the_limit_that_was_met(code: int) -> None:
    assert await ended(code, overflowed=True, turns=3) == "turn_limit"
    assert await ended(code, overflowed=True, tokens=50) == "token_limit"
    assert await ended(code, overflowed=True, after_s=11) == "time_limit"
    assert await ended(code, overflowed=True) == "context_limit"


async def test_an_answer_that_was_cut_ends_it() -> None:
    assert await ended(1, reason="length") == "output_limit"


async def test_its_sandboxs_memory_is_the_policys_budget() -> None:
    assert await ended(137, killed=KILLED) == "budget"


@pytest.mark.parametrize("code", [1, 2, 134, 137, 139])
async def test_any_other_end_is_a_failure_that_says_its_last_words(code: int) -> None:
    words = rf"codex 1\.0 exited with {code} after 2 calls of its model: .*segfault"
    with pytest.raises(InfraError, match=words) as failed:
        await ended(code, stderr=b"segfault")
    assert failed.value.kind == "program_failed"


async def test_a_kill_that_memory_did_not_cost_is_a_failure() -> None:
    with pytest.raises(InfraError):
        await ended(1, killed=KILLED)


async def test_success_without_a_model_is_none() -> None:
    with pytest.raises(InfraError, match="asked no model"):
        await ended(0, turns=0)


@pytest.mark.parametrize("code", [1, 129, 130, 134, 137, 139, 143])
@pytest.mark.parametrize(("turns", "inside"), [(2, True), (0, True), (2, False)])
async def test_a_program_that_was_sent_a_signal_where_the_policy_acts_is_in_doubt(
    code: int, turns: int, inside: bool
) -> None:
    with pytest.raises(InfraError) as failed:
        await ended(code, turns=turns, inside=inside)
    assert failed.value.doubtful == (code in (129, 130, 137, 143) and turns > 0 and inside)
