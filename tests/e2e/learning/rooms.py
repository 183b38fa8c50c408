"""A task of several turns, as small as one can be: a row of rooms, each with a sign, and the right door for each sign.

Row     `signs`: what stands in each room, `sun` or `moon`. The policy sees one sign at a time and answers with one of
        two tools; of whether it was right it learns nothing before the end.
Reward  1 if each door was the right one: `left` at a sun, `right` at a moon. By chance 1 in 2 ** rooms.
"""

import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from paddock.http import PLAIN_RESPONSES, RESPONSES, SEED, VERIFY, Call, ModelReply, VerifyRequest
from paddock.server import AgentConfig, AgentServer, ResourcesServer, ServerConfig
from paddock.server.rollout import RolloutRun, require_answer
from paddock.types import JsonObject, Rollout, Row, Session, Verdict
from paddock.types.responses import calls, output_items

ROOMS = 3
SIGNS = ("sun", "moon")
DOORS = {"sun": "left", "moon": "right"}
TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}} for name in DOORS.values()
]


class RoomsTask(BaseModel):
    model_config = ConfigDict(extra="ignore")

    signs: list[Literal["sun", "moon"]]


class RoomsServer(ResourcesServer[ServerConfig, RoomsTask]):
    task_type = RoomsTask

    async def seed_session(self, task: RoomsTask, row: Row) -> Session:
        return Session(visible={"signs": task.signs})

    async def verify(self, task: RoomsTask, row: Row, response: JsonObject) -> Verdict:
        taken = [call.name for call in calls(response)]
        right = taken == [DOORS[sign] for sign in task.signs]
        return Verdict(reward=float(right), reason="right" if right else "wrong", metrics={"rooms": float(len(taken))})


class ClosedConfig(ServerConfig):
    closed: Path
    """While this file is there the server does not start."""


class ClosedRooms(ResourcesServer[ClosedConfig, RoomsTask]):
    """`RoomsServer` that may be kept from coming back."""

    config_type = ClosedConfig
    task_type = RoomsTask
    seed_session = RoomsServer.seed_session
    verify = RoomsServer.verify

    async def start(self) -> None:
        while self.config.closed.exists():
            await asyncio.sleep(0.1)


class RoomsAgent(AgentServer[AgentConfig]):
    config_type = AgentConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_rollout)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self.model.call(PLAIN_RESPONSES, body, call)

    async def _run_rollout(self, run: RolloutRun) -> None:
        session = await self.resources.call(SEED, run.row, run.call)
        signs: list[str] = session.visible["signs"]
        said: list[Any] = [{"role": "user", "content": f"a {signs[0]}"}]
        done: list[Any] = []
        for after in [*signs[1:], None]:
            reply = await self._ask(run, said)
            run.response = reply
            made = calls(reply)
            done += output_items(reply)
            if not made:
                break
            shown = {"type": "function_call_output", "call_id": made[0].call_id, "output": f"a {after}"}
            said += [*output_items(reply), shown]
        run.response = {**(run.response or {}), "output": done}
        run.verdict = await self.resources.call(VERIFY, VerifyRequest(row=run.row, response=run.response), run.call)

    async def _ask(self, run: RolloutRun, said: list[Any]) -> JsonObject:
        body = {**run.row.responses_create_params, "input": said}
        reply = await self.model.call(RESPONSES, body, run.call, secret=run.secret)
        assert isinstance(reply, dict)
        return require_answer(reply)


def write_rows(path: Path) -> None:
    """All rows of signs."""
    lines = [
        {"responses_create_params": {"input": [], "tools": TOOLS}, "signs": list(signs)}
        for signs in product(SIGNS, repeat=ROOMS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def conversations() -> list[list[JsonObject]]:
    """Everything that the model may be asked to go on with, whichever doors it took."""
    found: list[list[JsonObject]] = []
    for signs in product(SIGNS, repeat=ROOMS):
        for doors in product(DOORS.values(), repeat=ROOMS - 1):
            messages: list[JsonObject] = [{"role": "user", "content": f"a {signs[0]}"}]
            found.append(list(messages))
            for door, sign in zip(doors, signs[1:], strict=True):
                call = {"type": "function", "function": {"name": door, "arguments": "{}"}}
                messages += [
                    {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "content": f"a {sign}"},
                ]
                found.append(list(messages))
    return found


def make(folder: Path, *, seed: int) -> None:
    """Rows and a model; under an interpreter with torch."""
    from paddock.testing.tiny_qwen3 import make_caller
    from paddock.tokens.template import ChatTemplate

    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "train.jsonl")
    source = Path(__file__).parents[3] / "scripts" / "train_demo.jinja"
    template = ChatTemplate(source.read_text(), {"eos_token": "<|im_end|>"})
    tools = [{"type": "function", "function": {"name": name}} for name in DOORS.values()]
    prompts = [
        template.render(messages, tools=tools, generation_prompt=True, arguments={}) for messages in conversations()
    ]
    answers = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call><|im_end|>' for name in DOORS.values()
    ]
    make_caller(folder / "model", prompts, answers, template=source, seed=seed, steps=300)
