"""Claims about what the engine got: a prompt that lacks something of the client's is found."""

from collections.abc import Sequence
from typing import Any

import pytest

from paddock.lab.fidelity import BenchServer
from paddock.lab.fidelity.clients import ClientSubject
from paddock.lab.fidelity.clients.claude_code import ClaudeCode
from paddock.lab.fidelity.clients.mini_swe_agent import MiniSweAgent
from paddock.lab.fidelity.missing_texts import missing_texts
from paddock.server.recording_server import PendingCall
from paddock.types import JsonObject


def user(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": text}


def output(text: str) -> JsonObject:
    return {"type": "function_call_output", "call_id": "c", "output": text}


@pytest.mark.parametrize(
    ("items", "prompt", "missing"),
    [
        ([user("Go on."), output("a b\n")], "<u>Go on.<t>a b", []),
        ([user("Go on."), output("a b")], "<u>Go on.", ["a b"]),
        ([user("first"), user("second")], "second first", ["second"]),
        ([output("same"), output("same")], "same", ["same"]),
        ([output('say "x"\n\n')], 'result: {"content": "say \\"x\\"\\n\\n"}', []),
        ([user("hello"), {"role": "developer", "content": "Be kind."}], "Be kind. hello", []),
        ([{"role": "assistant", "content": "never mind"}, output(" \n")], "", []),
    ],
)
def test_texts_are_looked_for_in_order(items: Sequence[JsonObject], prompt: str, missing: list[str]) -> None:
    assert missing_texts(items, prompt) == missing


class LosesTheFirst(BenchServer):
    """Leaves out the first of several things that came after a turn."""

    def _new_ids(self, pending: PendingCall, before: Sequence[int]) -> list[int]:
        if len(pending.match.environment) > 1 and pending.match.turn is not None:
            pending.match = pending.match._replace(environment=pending.match.environment[1:])
        return super()._new_ids(pending, before)


@pytest.mark.parametrize(("cls", "scenario"), [(MiniSweAgent, "parallel"), (ClaudeCode, "loop")])
async def test_a_server_that_loses_a_result_fails_though_its_ids_are_exact(
    cls: Any, scenario: str, run_subject: Any
) -> None:
    (run,) = (await run_subject(ClientSubject(cls), (scenario,), server_type=LosesTheFirst)).runs
    assert (run.figures.verdict, run.verdict) == ("exact", "failed")
    assert run.problem is not None
    assert "did not get" in run.problem
