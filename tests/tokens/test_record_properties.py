"""Whatever a client does, the record holds what the engine saw and sampled, and a prompt tells what its client told.

The client wanders; what a prompt has to say is worked out here, from what the client knows by itself and from what the
template is known to write. Nothing of that is asked of the package.
"""

import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.fuzz_client import FuzzClient, FuzzRequest, HistoryItem, output_of, speaks, text_of

from paddock.http import Call
from paddock.server.exact import ExactConfig
from paddock.testing.engines import EngineAnswer, ScriptedEngine, ScriptedExactServer, log_prob
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, full_prompt
from paddock.types import JsonObject, Turn

IM_END = "<|im_end|>"
STOPS = (IM_END, "<|endoftext|>")


class RecordWorld:
    """The server, and what its clients share."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary = small_vocabulary()
        template = ChatTemplate(TEMPLATES["chatml"].source, self.vocabulary.special_texts)
        self.prompter = Prompter(template, self.vocabulary)
        self.client: FuzzClient | None = None
        self.engine = ScriptedEngine(self.vocabulary, self._answer, chunk_ids=16)
        self.folder = folder
        self.server = self._server()

    def _server(self) -> ScriptedExactServer:
        config = ExactConfig.model_validate({"turn_store": {"folder": self.folder}})
        return ScriptedExactServer(config, engine=self.engine, prompter=self.prompter, vocabulary=self.vocabulary)

    async def restart(self) -> None:
        await self.server.stop()
        self.server = self._server()
        await self.server.start()

    def _answer(self, prompt: list[int]) -> EngineAnswer:
        assert self.client is not None
        return self.client.sampled(self.vocabulary)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RecordWorld]:
    found = RecordWorld(tmp_path / "turns")
    await found.server.start()
    yield found
    await found.server.stop()


class WatchedRecord:
    """One conversation, and what there is to say against its record."""

    def __init__(self, world: RecordWorld, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = world
        self.secret = f"ro_{seed}"
        self.client = FuzzClient(self.rng)
        self.raw: list[str] = []
        """What was sampled, by call of the engine."""
        self.record_answer: dict[str, int] = {}
        self.continued: set[int] = set()
        self.appended = 0
        """How many requests only appended to an answer."""
        self.missed: list[tuple[int, int, list[int]]] = []
        """Of those, the ones that did not go on from it: call, answer, the turns that it went on from."""

    async def live(self, turns: int) -> None:
        self.world.client = self.client
        self.world.engine.calls.clear()
        await self.ask(self.client.first())
        for _ in range(turns - 1):
            if self.rng.random() < 0.03:
                await self.world.restart()
            await self.ask(self.client.plan())
        record = await self.world.server.turns(self.secret)
        assert len(record.turns) == len(self.client.requests) == len(self.world.engine.calls)
        for nth, turn in enumerate(record.turns):
            self.check_ids(record.turns, nth, turn)
        await self.world.server.forget(self.secret)

    async def ask(self, request: FuzzRequest) -> None:
        body = self.client.body(request)
        begun, asked = self.world.engine.n_started, json.dumps(body)
        server = self.world.server
        ask = server.chat if self.client.habits.dialect == "chat" else server.responses
        reply = await ask(body, Call(path={"secret": self.secret}))
        assert isinstance(reply, dict)
        known = self.record_answer.get(asked)
        turns = server.store.turns(self.secret)
        output = output_of(reply)
        if self.world.engine.n_started == begun:
            assert known is not None, "answered from nothing"
            assert output == self.client.outputs[known], "a retry got another answer"
            return
        assert known is None or known in self.continued, "the same was sampled twice"
        nth = self.record_answer[asked] = len(self.client.requests)
        assert len(turns) == nth + 1 == len(self.world.engine.calls)
        self.raw.append(self.world.vocabulary.decode(self.world.engine.calls[-1].sampled))
        self.client.record_answer(request, output)
        self.check_prompt(turns, nth)

    def check_ids(self, turns: Sequence[Turn], nth: int, turn: Turn) -> None:
        seen = self.world.engine.calls[nth]
        assert full_prompt(turns, turn.id) == seen.prompt
        assert turn.sampled_ids == seen.sampled
        assert turn.log_probs == [log_prob(place, token) for place, token in enumerate(seen.sampled)]

    def check_prompt(self, turns: Sequence[Turn], nth: int) -> None:
        numbers = {turn.id: number for number, turn in enumerate(turns)}
        chain: list[int] = []
        parent = turns[nth].parent
        while parent is not None:
            chain.insert(0, numbers[parent])
            parent = turns[numbers[parent]].parent
        self.continued.update(chain)
        prompt = self.world.vocabulary.decode(self.world.engine.calls[nth].prompt)
        assert prompt == self.prompt(self.client.requests[nth], chain), f"call {nth}, after {chain}"
        appends_to = self.client.requests[nth].appends_to
        if appends_to is not None:
            self.appended += 1
            if not self.goes_on(chain, appends_to):
                self.missed.append((nth, appends_to, chain))

    def goes_on(self, chain: list[int], number: int) -> bool:
        """From that answer, or from one that the client words alike."""
        spoken = [turn for turn in chain if turn == number or not self.client.is_silent(turn)]
        return bool(spoken) and (
            spoken[-1] == number or self.alike(self.client.ends[number].history, number, spoken[-1])
        )

    def alike(self, history: list[HistoryItem], said: int, other: int) -> bool:
        """The client's words for one are those for the other."""
        items = [entry.item for entry in history if entry.sampled_by == said]
        if any(item and ("call_id" in item or _handle(item)) for item in items):
            return False
        text = "".join(text_of(item) for item in items if item is not None and item["type"] == "message")
        spoken = [item for item in self.client.outputs[other] if item["type"] == "message"]
        calls = any("call_id" in item for item in self.client.outputs[other])
        return not calls and text.strip() == "".join(map(text_of, spoken)).strip()

    def prompt(self, request: FuzzRequest, chain: list[int]) -> str:
        """What the request has to say, where it continues `chain`."""
        history = self.with_silent(request.history, chain)
        order = list(dict.fromkeys(entry.sampled_by for entry in history if entry.sampled_by is not None))
        continued: dict[int, int] = {}
        for said in order:
            turn = chain[len(continued)] if len(continued) < len(chain) else None
            if turn is not None and (turn == said or (turn not in order and self.alike(history, said, turn))):
                continued[said] = turn
        assert list(continued.values()) == chain, f"it continues {chain}, and tells of {order}"
        page = _RecordPage(request.system, request.tools)
        left = list(chain)
        then = {entry.uid: entry for entry in self.client.requests[left[0]].history} if left else {}
        for entry in history:
            if entry.sampled_by in continued:
                turn = continued[entry.sampled_by]
                if left and turn == left[0]:
                    page.sampled(self.raw[left.pop(0)])
                    then = {entry.uid: entry for entry in self.client.requests[left[0]].history} if left else {}
                continue
            before = then.get(entry.uid, entry)
            page.add(before.item if _same(before.item, entry.item) else entry.item)
        return page.text()

    def with_silent(self, history: list[HistoryItem], chain: list[int]) -> list[HistoryItem]:
        """An answer without a word is told by silence, right where it was given, whatever is told of it later."""
        found = list(history)
        for turn in filter(self.client.is_silent, chain):
            before = [entry for entry in self.client.requests[turn].history if entry.item is not None]
            real = [nth for nth, entry in enumerate(found) if entry.item is not None]
            same = zip(real, before, strict=False)
            if len(real) <= len(before) or not all(_alike(found[nth], entry) for nth, entry in same):
                continue
            place = real[len(before)]
            if any(entry.sampled_by == turn for entry in found[real[len(before) - 1] + 1 : place + 1]):
                continue
            for nth, entry in zip(real, before, strict=False):
                found[nth] = entry
            rest = [replace(entry, sampled_by=None) if entry.sampled_by == turn else entry for entry in found[place:]]
            del rest[: _is_empty(rest[0].item)]
            found = [*found[:place], HistoryItem(0, None, turn), *rest]
        return found


class _RecordPage:
    """A prompt in the making, as the template `chatml` is known to write it."""

    def __init__(self, system: str, tools: list[JsonObject]) -> None:
        shown = [{"type": "function", "function": {key: tool[key] for key in tool if key != "type"}} for tool in tools]
        lines = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in shown)
        words = (f"{system}\n" if system else "") + lines if tools else system
        self.parts = [f"<|im_start|>system\n{words}{IM_END}\n"] if words else []
        self.thoughts: list[str] = []
        self.words: str | None = None
        self.calls: list[str] = []

    def text(self) -> str:
        self.close()
        return "".join(self.parts) + "<|im_start|>assistant\n"

    def sampled(self, raw: str) -> None:
        self.close()
        self.parts += ["<|im_start|>assistant\n", raw, "" if raw.endswith(STOPS) else IM_END, "\n"]

    def add(self, item: JsonObject | None) -> None:
        if item is None:
            return
        if item["type"] == "reasoning":
            if self.words is not None and not self.calls:
                self.close()
            self.thoughts += [part["text"] for part in item["summary"] if part["text"]]
        elif item["type"] == "function_call":
            said = json.dumps(json.loads(item["arguments"]), ensure_ascii=False)
            self.calls.append(f'<tool_call>\n{{"name": "{item["name"]}", "arguments": {said}}}\n</tool_call>')
        elif speaks(item):
            if self.words is not None:
                self.close()
            self.words = text_of(item)
        else:
            self.close()
            role, text = ("tool", item["output"]) if "output" in item else (item["role"], item["content"])
            self.parts.append(f"<|im_start|>{role}\n{text}{IM_END}\n")

    def close(self) -> None:
        if self.thoughts or self.calls or self.words is not None:
            thought = "\n".join(self.thoughts)
            marked = f"<think>\n{thought}\n</think>\n\n" if thought else ""
            said = marked + (self.words or "") + "".join(self.calls)
            self.parts.append(f"<|im_start|>assistant\n{said}{IM_END}\n")
        self.thoughts, self.words, self.calls = [], None, []


def _handle(item: JsonObject) -> bool:
    return "encrypted_content" in item


def _alike(one: HistoryItem, other: HistoryItem) -> bool:
    return _same(one.item, other.item) or (one.sampled_by is not None and one.sampled_by == other.sampled_by)


def _same(one: JsonObject | None, other: JsonObject | None) -> bool:
    """But for white space around texts."""
    if one is None or other is None:
        return one is other
    return _stripped(one) == _stripped(other)


def _is_empty(item: JsonObject | None) -> bool:
    return item is not None and speaks(item) and not text_of(item)


def _stripped(item: JsonObject) -> JsonObject:
    return {key: value.strip() if isinstance(value, str) else value for key, value in item.items()}


async def wander(world: RecordWorld, seeds: range) -> tuple[int, list[Any]]:
    """How many requests only appended, and those that did not continue what they appended to."""
    appended = 0
    missed: list[Any] = []
    for seed in seeds:
        watched = WatchedRecord(world, seed)
        try:
            await watched.live(watched.rng.randrange(3, 9))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {watched.client.habits}: {error}") from error
        appended += watched.appended
        missed += [(seed, watched.client.habits, *each) for each in watched.missed]
    return appended, missed


async def test_every_prompt_tells_what_its_client_told_and_continues_what_it_appends_to(world: RecordWorld) -> None:
    appended, missed = await wander(world, range(300))
    assert (appended > 500, missed) == (True, [])


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_ten_thousand_conversations_are_recorded_exactly(world: RecordWorld) -> None:
    """Silence is ambiguous: an answer without a word, given beside others, is at times taken for told."""
    appended, missed = await wander(world, range(1000, 11000))
    assert appended > 20_000
    assert len(missed) < appended / 1000, missed
