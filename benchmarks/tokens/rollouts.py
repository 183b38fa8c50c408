"""CPU of whole rollouts, 50 to 200 turns long: an exact server beside a bare loop, and beside tokenising all again.

Ours is a client that keeps the history and sends it whole with each turn, called directly. The floors do what an exact
client does by hand with the same library: they keep the history and the ids, tokenise each new result, ask the same
engine, read the answer with the same parser, write a line per turn. The naive way renders and tokenises the whole
history each turn.
Both run with the collector as servers have it (`spare_collector`).
Floor   `floor`: its new text is rendered by the model's chat template, as in a client of any model; the target is a
        ratio to it of at most 2. `by_hand`: its new text is a string that is written for this one model; shown beside.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson
import uvloop

from benchmarks.tokens.scripted_rollout import TOOLS, ScriptedRollout, extend_history
from paddock.http import Call
from paddock.server.dialects import conversation
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.chat_items import ChatItems
from paddock.server.loops import spare_collector
from paddock.testing.engines import JsonCallParser, ScriptedEngine
from paddock.types import JsonObject

TURNS = (50, 100, 200)
FINAL_IDS = 131_072
"""Length of a rollout of 200 turns; shorter ones stop on their way there."""
SAMPLED = 250
RESULT_CHARS = 1035
ROUNDS = 5
NAIVE_EVERY = 10
SECRET = "ro_bench"
CHAT_TOOLS: list[JsonObject] = [
    {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}} for tool in TOOLS
]
END = "<|im_end|>"
END_OF_ANSWER = 3
"""Its place among those of a rendering of system (the tools), user, answer and result."""


class RolloutCost(NamedTuple):
    """A rollout's figures."""

    cpu_ms: float
    encoded_chars: int
    ids: int
    """Length of the last prompt and its answer."""
    chars: int
    """The length of that as text."""


class NaiveCost(NamedTuple):
    cpu_ms: float
    encoded_chars: int


Rollout = Callable[[ScriptedRollout, int, Path, ScriptedEngine], Awaitable[list[int]]]
"""Gives the ids at its end."""


def measure() -> list[dict[str, Any]]:
    spare_collector()
    with tempfile.TemporaryDirectory() as name, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        scripted = ScriptedRollout(max(TURNS), sampled=SAMPLED, result_chars=RESULT_CHARS)
        folder = Path(name)

        def once(rollout: Rollout, turns: int) -> RolloutCost:
            return runner.run(_measure(rollout, scripted, turns, folder))

        once(_ours, TURNS[0])
        once(_bare, TURNS[0])
        return [_compare(once, scripted, turns) for turns in TURNS]


def _compare(once: Callable[[Rollout, int], RolloutCost], scripted: ScriptedRollout, turns: int) -> dict[str, Any]:
    rounds = [[once(each, turns) for each in (_ours, _bare, _by_hand)] for _ in range(ROUNDS)]
    naive = _naive(scripted, turns)
    ours = rounds[0][0]
    if len({each.ids for each in rounds[0]}) != 1:
        raise RuntimeError(f"ours and the bare loops ended with {[each.ids for each in rounds[0]]} ids")
    return {
        "turns": turns,
        "ids": ours.ids,
        "cpu_ms": median(mine.cpu_ms for mine, _, _ in rounds),
        "floor_cpu_ms": median(bare.cpu_ms for _, bare, _ in rounds),
        "by_hand_cpu_ms": median(hand.cpu_ms for _, _, hand in rounds),
        "ratio": median(mine.cpu_ms / bare.cpu_ms for mine, bare, _ in rounds),
        "ratio_to_by_hand": median(mine.cpu_ms / hand.cpu_ms for mine, _, hand in rounds),
        "cpu_ms_per_turn": median(mine.cpu_ms for mine, _, _ in rounds) / turns,
        "over_floor_ms_per_turn": median(mine.cpu_ms - bare.cpu_ms for mine, bare, _ in rounds) / turns,
        "naive_cpu_ms": naive.cpu_ms,
        "encoded_per_final_char": ours.encoded_chars / ours.chars,
        "naive_encoded_per_final_char": naive.encoded_chars / ours.chars,
    }


async def _measure(rollout: Rollout, scripted: ScriptedRollout, turns: int, folder: Path) -> RolloutCost:
    engine = scripted.engine()
    scripted.vocabulary.encoded_chars = 0
    cpu = time.process_time()
    ids = await rollout(scripted, turns, folder, engine)
    cpu = time.process_time() - cpu
    return RolloutCost(cpu * 1e3, scripted.vocabulary.encoded_chars, len(ids), len(scripted.vocabulary.decode(ids)))


async def _ours(scripted: ScriptedRollout, turns: int, folder: Path, engine: ScriptedEngine) -> list[int]:
    server = scripted.server(folder / SECRET, engine)
    await server.start()
    try:
        history = list(scripted.question)
        ids: list[int] = []
        for turn in range(turns):
            body: JsonObject = {"model": "policy", "input": history, "tools": TOOLS, "temperature": 1.0}
            answer = await server.responses(body, Call(path={"secret": SECRET}))
            assert isinstance(answer, dict)  # no stream was asked for
            extend_history(history, answer["output"], scripted.results[turn])
            seen = engine.calls.pop()
            ids = seen.prompt
            if turn == turns - 1:
                ids += seen.sampled
        await server.forget(SECRET)
    finally:
        await server.stop()
    return ids


async def _bare(scripted: ScriptedRollout, turns: int, folder: Path, engine: ScriptedEngine) -> list[int]:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": {}}}
    placeholder: list[JsonObject] = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]

    def rendered(result: str) -> str:
        """Behind the end of the answer."""
        messages = [*placeholder, {"role": "tool", "tool_call_id": "c", "content": result}]
        text = scripted.template.render(messages, tools=CHAT_TOOLS, generation_prompt=True, arguments={})
        return text.split(END, END_OF_ANSWER)[-1]

    return await _loop(scripted, turns, folder, engine, rendered)


async def _by_hand(scripted: ScriptedRollout, turns: int, folder: Path, engine: ScriptedEngine) -> list[int]:
    def text_after(result: str) -> str:
        return f"\n<|im_start|>user\n<tool_response>\n{result}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"

    return await _loop(scripted, turns, folder, engine, text_after)


async def _loop(
    scripted: ScriptedRollout, turns: int, folder: Path, engine: ScriptedEngine, new_text: Callable[[str], str]
) -> list[int]:
    """`new_text`: what stands between the end of an answer and the next, of a tool's result."""
    vocabulary = scripted.vocabulary
    history = list(scripted.question)
    ids = scripted.prompter.whole(history, CHAT_TOOLS)
    new = list(ids)
    path = folder / "bare.jsonl"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        for turn in range(turns):
            sampled: list[int] = []
            log_probs: list[float] = []
            async for chunk in engine.generate(ids, {"temperature": 1.0}, Call(), rollout=None):
                sampled += chunk.ids
                log_probs += chunk.log_probs
            engine.calls.clear()
            output = _items(scripted, sampled)
            line = {"prompt_ids": new, "sampled_ids": sampled, "log_probs": log_probs, "output": output}
            os.write(descriptor, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            ids += sampled
            if turn == turns - 1:
                break
            extend_history(history, output, scripted.results[turn])
            new = vocabulary.encode(new_text(scripted.results[turn]))
            ids += new
    finally:
        os.close(descriptor)
        path.unlink()
    return ids


def _naive(scripted: ScriptedRollout, turns: int) -> NaiveCost:
    """Without a record: each of some turns stands for those around it. What engine and parser cost is left out."""
    history = list(scripted.question)
    scripted.vocabulary.encoded_chars = 0
    cpu = 0.0
    for turn in range(turns):
        if turn % NAIVE_EVERY == NAIVE_EVERY // 2:
            cpu -= time.process_time()
            request = conversation("responses", {"input": history, "tools": TOOLS})
            scripted.prompter.whole(chat_messages(request.items), request.tools)
            cpu += time.process_time()
        sampled = scripted.answers[turn].ids
        extend_history(history, _items(scripted, sampled), scripted.results[turn])
    return NaiveCost(cpu * 1e3 * NAIVE_EVERY, scripted.vocabulary.encoded_chars * NAIVE_EVERY)


def _items(scripted: ScriptedRollout, sampled: list[int]) -> list[JsonObject]:
    """An answer's."""
    items = ChatItems(frozenset())
    list(items.delta(JsonCallParser().whole(scripted.vocabulary.decode(sampled[:-1]), sampled)))
    list(items.end())
    return items.output
