"""A task of several turns, as small as one can be: a row of rooms, each with a sign, and the right door for each sign.

Row     `signs`: what stands in each room, `sun` or `moon`. The policy sees one sign at a time and answers with one of
        two tools; of whether it was right it learns nothing before the end. `words`: the word before each sign.
        `pause_s`: how many seconds its rollouts wait for the environment, in equal parts after each answer.
Reward  1 if each door was the right one: `left` at a sun, `right` at a moon. By chance 1 in 2 ** rooms.
"""

import asyncio
import json
import random
from collections.abc import Sequence
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
WORDS = ("a", "the", "one", "some")
TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}} for name in DOORS.values()
]


class RoomsTask(BaseModel):
    model_config = ConfigDict(extra="ignore")

    signs: list[Literal["sun", "moon"]]
    words: list[str] = ["a"] * ROOMS
    pause_s: float = 0.0


class RoomsServer(ResourcesServer[ServerConfig, RoomsTask]):
    task_type = RoomsTask

    async def seed_session(self, task: RoomsTask, row: Row) -> Session:
        texts = [f"{word} {sign}" for word, sign in zip(task.words, task.signs, strict=True)]
        return Session(visible={"texts": texts, "pause_s": task.pause_s})

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
        texts: list[str] = session.visible["texts"]
        said: list[Any] = [{"role": "user", "content": texts[0]}]
        done: list[Any] = []
        for after in [*texts[1:], None]:
            reply = await self._ask(run, said)
            await asyncio.sleep(session.visible["pause_s"] / len(texts))
            run.response = reply
            made = calls(reply)
            done += output_items(reply)
            if not made:
                break
            shown = {"type": "function_call_output", "call_id": made[0].call_id, "output": after}
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
    _write(path, [_row(signs) for signs in product(SIGNS, repeat=ROOMS)])


def write_worded_rows(folder: Path, *, seed: int, pause_s: float) -> None:
    """`train.jsonl`: 40 rows, five for all signs, of which each fifth pauses. `held_out.jsonl`: 24 others."""
    chance = random.Random(seed)
    rows = []
    for signs in product(SIGNS, repeat=ROOMS):
        words = chance.sample(list(product(WORDS, repeat=ROOMS)), 8)
        rows += [{**_row(signs), "words": list(own)} for own in words]
    _write(folder / "held_out.jsonl", [row for nth, row in enumerate(rows) if nth % 8 >= 5])
    trained = [row for nth, row in enumerate(rows) if nth % 8 < 5]
    _write(folder / "train.jsonl", [{**row, "pause_s": 0.0 if nth % 5 else pause_s} for nth, row in enumerate(trained)])


def _row(signs: Sequence[str]) -> JsonObject:
    return {"responses_create_params": {"input": [], "tools": TOOLS}, "signs": list(signs)}


def _write(path: Path, rows: Sequence[JsonObject]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def conversations(words: Sequence[str] = WORDS[:1]) -> list[list[JsonObject]]:
    """Everything that the model may be asked to go on with, whichever doors it took, with one of `words` in all
    rooms."""
    found: list[list[JsonObject]] = []
    for word, signs in product(words, product(SIGNS, repeat=ROOMS)):
        for doors in product(DOORS.values(), repeat=ROOMS - 1):
            messages: list[JsonObject] = [{"role": "user", "content": f"{word} {signs[0]}"}]
            found.append(list(messages))
            for door, sign in zip(doors, signs[1:], strict=True):
                call = {"type": "function", "function": {"name": door, "arguments": "{}"}}
                messages += [
                    {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "content": f"{word} {sign}"},
                ]
                found.append(list(messages))
    return found


def make(folder: Path, *, seed: int, pause_s: float | None = None) -> None:
    """Rows and a model; under an interpreter with torch. `pause_s`: of the slow rows among worded ones; None: the rows
    are those of signs alone."""
    from paddock.testing.tiny_qwen3 import make_caller
    from paddock.tokens.template import ChatTemplate

    folder.mkdir(parents=True, exist_ok=True)
    if pause_s is None:
        write_rows(folder / "train.jsonl")
    else:
        write_worded_rows(folder, seed=seed, pause_s=pause_s)
    source = Path(__file__).parents[3] / "scripts" / "train_demo.jinja"
    template = ChatTemplate(source.read_text(), {"eos_token": "<|im_end|>"})
    tools = [{"type": "function", "function": {"name": name}} for name in DOORS.values()]
    prompts = [
        template.render(messages, tools=tools, generation_prompt=True, arguments={})
        for messages in conversations(WORDS[:1] if pause_s is None else WORDS)
    ]
    answers = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call><|im_end|>' for name in DOORS.values()
    ]
    make_caller(folder / "model", prompts, answers, template=source, seed=seed, steps=300)
