"""Claims about the harness contract, over a real model server: a harness needs its model and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import pytest

from paddock.harness import ExecOutput, Exit, Harness, Model, RunLimits, ShellSession, Step, Task, Workspace
from paddock.http import SCRIPT, TURNS, Call, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.server.rollout_model import RolloutModel
from paddock.testing import over
from paddock.testing.native import WorkspaceWithoutPrograms
from paddock.types import JsonObject
from paddock.types.responses import call_item, calls, message_item, messages


class Folder(WorkspaceWithoutPrograms):
    """A workspace that knows one command."""

    workdir = "/work"

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecOutput:
        return ExecOutput(0, b"a.py\n") if list(argv) == ["ls"] else ExecOutput(127, b"no such command\n")

    async def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    async def write(self, path: str, data: bytes) -> None:
        raise PermissionError(path)

    async def shell(self) -> ShellSession:
        raise NotImplementedError("it has none")


class EchoLoop:
    """Calls the model until it answers without a call."""

    KIND: ClassVar[Literal["harnesses"]] = "harnesses"

    async def run(
        self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: Callable[[Step], None]
    ) -> Exit:
        history: list[JsonObject] = [{"role": "user", "content": task.prompt}]
        for turn in range(1, (limits.max_turns or 100) + 1):
            output = (await model.respond({"input": history}))["output"]
            results: list[JsonObject] = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": (await workspace.exec([call.name])).output.decode(),
                }
                for call in calls(output)
            ]
            history += [*output, *results]
            report(Step(turn=turn, output=[*output, *results]))
            if not results:
                return Exit(ended="finished", turns=turn, final=messages(output)[-1])
        return Exit(ended="turn_limit", turns=limits.max_turns or 100)


@pytest.mark.parametrize(
    ("limits", "ended", "turns"), [(RunLimits(), "finished", 2), (RunLimits(max_turns=1), "turn_limit", 1)]
)
async def test_a_harness_is_a_class_with_run_and_every_call_of_its_is_recorded(
    limits: RunLimits, ended: str, turns: int
) -> None:
    harness: Harness = EchoLoop()
    steps: list[Step] = []
    secret = new_secret()
    async with over("http", ReplayServer(ReplayConfig(), name="model", peers={})) as peers:
        peer = peers["model"]
        script = ReplayScript(turns=[[call_item("ls", "{}")], [message_item("one file")]])
        await peer.call(SCRIPT, script, Call(), secret=secret)
        model = RolloutModel(peer, Call(), secret=secret, name="replay")
        left = await harness.run(Task(prompt="What is here?"), Folder(), model, limits, steps.append)
        record = await peer.call(TURNS, {}, Call(), secret=secret)
    assert (left.ended, left.turns) == (ended, turns)
    assert [step.turn for step in steps] == list(range(1, turns + 1))
    assert steps[0].output[-1]["output"] == "a.py\n"
    assert [turn.output for turn in record.turns] == [
        step.output[: len(turn.output)] for step, turn in zip(steps, record.turns, strict=True)
    ]
    assert record.turns[-1].parent == (record.turns[0].id if turns > 1 else None)
