"""A client at random: it appends, retries, branches, trims, rewords, prunes, truncates, sums up, says things twice.

Law     it knows of each item of its history which call of the engine sampled it, by itself: tests compare that with
        what a model server makes of its requests. All that it does is drawn from one random generator.
Shapes  items of the Responses dialect; `body` writes them in the dialect that the client speaks.
"""

import json
import random
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from paddock.testing.engines import EngineAnswer, SampledAnswer
from paddock.tokens import Vocabulary
from paddock.types import JsonObject

TEXTS = [
    "ok",
    "ok",
    "Done.",
    " é",
    "e\u0301",
    "👩‍👩‍👧",
    "🏳️",
    "\n",
    "  ",
    "日本",
    "<|im_end|>",
    "</think>",
    "<tool_call>",
    "a\tb",
    "\u200b",
    "{",
]
TOOLS: list[JsonObject] = [
    {"type": "function", "name": name, "description": "It runs.", "parameters": {"type": "object", "properties": {}}}
    for name in ("sh", "edit")
]
SYSTEMS = ["", "Be exact.", "Be brief. 👍 "]
NOTICE, PRUNED, SUMMARY = "[steps left out]", "[output removed]", "What was done so far: nothing much."


@dataclass(frozen=True)
class HistoryItem:
    """An item of the client's history; None: an answer that the client leaves out."""

    uid: int
    item: JsonObject | None
    sampled_by: int | None = None
    """Which call of the engine sampled it."""


class FuzzRequest(NamedTuple):
    history: list[HistoryItem]
    system: str
    tools: list[JsonObject]
    appends_to: int | None = None
    """The answer that it only appends to."""


class ClientHabits(NamedTuple):
    """How a client writes its history."""

    dialect: str
    keeps_ids: bool
    reasoning: str
    respells: bool
    silence: str


class FuzzClient:
    """One conversation. Who sends its requests brings it the answers (`record_answer`)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.habits = ClientHabits(
            rng.choice(["responses", "responses", "chat"]),
            rng.random() < 0.5,
            rng.choice(["drop", "keep", "handle"]),
            rng.random() < 0.3,
            rng.choice(["omit", "empty"]),
        )
        self.requests: list[FuzzRequest] = []
        """The request of each call of the engine."""
        self.outputs: list[list[JsonObject]] = []
        """The answer to each of them, as the client read it."""
        self.ends: list[FuzzRequest] = []
        """The requests, with the answer."""
        self._uids = 0

    def first(self) -> FuzzRequest:
        return FuzzRequest([self.new_item("user")], self.rng.choice(SYSTEMS), TOOLS[: self.rng.randrange(3)])

    def body(self, request: FuzzRequest) -> JsonObject:
        return _body(request, self.habits.dialect)

    def record_answer(self, request: FuzzRequest, output: list[JsonObject]) -> None:
        """The engine's next call answered the request."""
        nth = len(self.requests)
        self.requests.append(request)
        self.outputs.append(output)
        self.ends.append(request._replace(history=[*request.history, *self.echo(nth, output)]))

    def is_silent(self, turn: int) -> bool:
        return not any("call_id" in item or (speaks(item) and text_of(item)) for item in self.outputs[turn])

    def new_item(self, role: str, text: str | None = None) -> HistoryItem:
        self._uids += 1
        return HistoryItem(
            self._uids, {"type": "message", "role": role, "content": self.text() if text is None else text}
        )

    def text(self) -> str:
        return "".join(self.rng.choice(TEXTS) for _ in range(self.rng.choice([1, 1, 2, 4])))

    def plan(self) -> FuzzRequest:
        rng = self.rng
        if rng.random() < 0.12:
            return rng.choice([self.requests[-1], rng.choice(self.requests)])._replace(appends_to=None)
        number = len(self.ends) - 1 if rng.random() < 0.85 else rng.randrange(len(self.ends))
        end = self.ends[number]
        if rng.random() < 0.55:
            return self.append(end, number)
        change = rng.choice(
            [
                self.trim,
                self.reword,
                self.prune,
                self.cut,
                self.sum_up,
                self.retool,
                self.leave_out,
                self.repeat,
                self.go_on,
            ]
        )
        return change(end, number)

    def append(self, end: FuzzRequest, number: int | None = None) -> FuzzRequest:
        """Results, and what the user says."""
        rng = self.rng
        history = list(end.history)
        done = {entry.item["call_id"] for entry in history if entry.item and entry.item["type"].endswith("output")}
        calls = [entry for entry in history if entry.item and entry.item["type"] == "function_call"]
        results = [self.result(call) for call in calls if call.item and call.item["call_id"] not in done]
        if len(results) > 1 and rng.random() < 0.1:
            results.pop(rng.randrange(len(results)))
        if rng.random() < 0.2:
            rng.shuffle(results)
        elif rng.random() < 0.15 and history[-1].sampled_by is not None and not done:
            for result in results:
                ids = [entry.item["call_id"] if entry.item and "call_id" in entry.item else "" for entry in history]
                assert result.item is not None
                history.insert(ids.index(result.item["call_id"]) + 1, result)
            results = []
        history += results
        if history == end.history or rng.random() < 0.15:
            history += [self.new_item("user") for _ in range(rng.choice([1, 1, 2]))]
        return FuzzRequest(history, end.system, end.tools, number)

    def result(self, call: HistoryItem) -> HistoryItem:
        self._uids += 1
        assert call.item is not None
        item = {"type": "function_call_output", "call_id": call.item["call_id"], "output": self.text()}
        return HistoryItem(self._uids, item)

    def trim(self, end: FuzzRequest, number: int) -> FuzzRequest:
        return self.append(end._replace(history=[_trimmed(entry) for entry in end.history]), number)

    def reword(self, end: FuzzRequest, number: int) -> FuzzRequest:
        """An answer, and maybe without its id."""
        reworded = self.rng.choice([entry.sampled_by for entry in end.history if entry.sampled_by is not None])
        history = [
            self.reworded_item(entry) if entry.sampled_by == reworded else entry
            for entry in _without_repeats(end.history)
        ]
        return self.append(end._replace(history=history))

    def reworded_item(self, entry: HistoryItem) -> HistoryItem:
        item = entry.item
        if item is None or item["type"] == "reasoning":
            return entry
        changed = {key: item[key] for key in item if key != "id" or self.rng.random() < 0.5}
        if item["type"] == "function_call":
            return replace(entry, item={**changed, "arguments": '{"raw": "?"}'})
        return replace(
            entry, item={**changed, "content": self.rng.choice(["", "ok", "(malformed call)", text_of(item) + "."])}
        )

    def prune(self, end: FuzzRequest, number: int) -> FuzzRequest:
        """The text of an early result, or of what the user said."""
        own = [entry for entry in end.history if entry.sampled_by is None and entry.item and not speaks(entry.item)]
        pruned = self.rng.choice(own)
        assert pruned.item is not None
        field = "output" if "output" in pruned.item else "content"
        changed = replace(pruned, item={**pruned.item, field: PRUNED})
        return self.append(end._replace(history=[changed if entry is pruned else entry for entry in end.history]))

    def cut(self, end: FuzzRequest, number: int) -> FuzzRequest:
        """Head and tail."""
        history = _without_repeats(end.history)
        whole = [nth for nth in range(1, len(history)) if history[nth].sampled_by != history[nth - 1].sampled_by]
        start, stop = sorted(self.rng.choices([*whole, len(history)], k=2))
        notice = [self.new_item("user", NOTICE)] if self.rng.random() < 0.7 else []
        if stop < len(history) and history[stop].item is None:
            notice = []  # what is left out stays where it was
        return self.append(end._replace(history=[*history[:start], *notice, *history[stop:]]))

    def sum_up(self, end: FuzzRequest, number: int) -> FuzzRequest:
        tools = [] if self.rng.random() < 0.5 else end.tools
        return FuzzRequest([self.new_item("user", SUMMARY)], end.system, tools)

    def retool(self, end: FuzzRequest, number: int) -> FuzzRequest:
        system = self.rng.choice(SYSTEMS)
        tools = TOOLS[: self.rng.randrange(3)]
        same = (system, tools) == (end.system, end.tools)
        return self.append(end._replace(system=system, tools=tools), number if same else None)

    def leave_out(self, end: FuzzRequest, number: int) -> FuzzRequest:
        left_out = self.rng.choice([entry.sampled_by for entry in end.history if entry.sampled_by is not None])
        if self.is_silent(left_out):
            return self.append(end, number)
        others = [entry for entry in _without_repeats(end.history) if entry.sampled_by != left_out]
        return self.append(end._replace(history=others))

    def repeat(self, end: FuzzRequest, number: int) -> FuzzRequest:
        """An answer's message, twice."""
        spoken = [entry for entry in end.history if entry.item and speaks(entry.item) and _is_rare(text_of(entry.item))]
        if not spoken:
            return self.append(end, number)
        twice = self.rng.choice(spoken)
        self._uids += 1
        assert twice.item is not None
        again = HistoryItem(self._uids, {key: twice.item[key] for key in twice.item if key != "id"})
        place = end.history.index(twice) + 1
        return self.append(end._replace(history=[*end.history[:place], again, *end.history[place:]]))

    def go_on(self, end: FuzzRequest, number: int) -> FuzzRequest:
        """From an answer, without a word."""
        last = end.history[-1]
        if last.item is None or not speaks(last.item):
            return self.append(end, number)
        return end._replace(appends_to=number)

    def echo(self, nth: int, output: list[JsonObject]) -> list[HistoryItem]:
        """How the client writes the answer in its history."""
        items = [self.echoed_item(item) for item in output]
        found: list[JsonObject | None] = [item for item in items if item is not None]
        if not any(item and ("call_id" in item or item["type"] == "reasoning" or text_of(item)) for item in found):
            empty = {"type": "message", "role": "assistant", "content": ""}
            found = [None if self.habits.silence == "omit" else (found[0] if found else empty)]
        entries: list[HistoryItem] = []
        for item in found:
            self._uids += 1
            entries.append(HistoryItem(self._uids, item, nth))
        return entries

    def echoed_item(self, item: JsonObject) -> JsonObject | None:
        habits = self.habits
        item = {key: value for key, value in item.items() if habits.keeps_ids or key not in ("id", "status")}
        if item["type"] == "reasoning":
            if habits.reasoning == "keep":
                item.pop("encrypted_content", None)
            return None if habits.reasoning == "drop" else item
        if item["type"] == "message":
            return {**item, "content": text_of(item).strip() if habits.respells else text_of(item)}
        if habits.respells:
            arguments = json.loads(item["arguments"])
            return {**item, "arguments": json.dumps(arguments, sort_keys=True, separators=(",", ":"))}
        return item

    def sampled(self, vocabulary: Vocabulary) -> EngineAnswer:
        rng = self.rng
        kind = rng.randrange(10)
        if kind == 0:
            return rng.choice(["", " \n", "<think>\nhm\n</think>\n\n"])
        if kind == 1:
            ids = [rng.randrange(1000) for _ in range(rng.randrange(1, 6))]
        elif kind == 2:
            ids = vocabulary.encode('<tool_call>\n{"name": "sh", "arguments": {"cmd": "ls}\n</tool_call>')
        elif kind <= 4:
            ids = vocabulary.encode(self.text())
            ids = [token for token in ids if token not in vocabulary.stop_ids]
        else:
            ids = vocabulary.encode(self.calling())
        ending = rng.randrange(8)
        if ending == 0:
            return SampledAnswer((ids or [65])[: rng.randrange(1, len(ids) + 2)], "length")
        stop = vocabulary.stops["<|endoftext|>" if ending == 1 else "<|im_end|>"]
        return SampledAnswer(ids if ending == 2 and ids else [*ids, stop])

    def calling(self) -> str:
        rng = self.rng
        thought = f"<think>\n{rng.choice(['hm', '🤔', ''])}\n</think>\n\n" if rng.random() < 0.5 else ""
        words = rng.choice(["", "", "I look.", "ok", " é "])
        space = rng.choice(["", " "])
        calls = ""
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            arguments = f'{{"n": {rng.randrange(3)},{space}"c": "é👍"}}'
            calls += f'<tool_call>{space}{{"name":{space}"sh", "arguments": {arguments}}}\n</tool_call>'
        return thought + words + calls


def _body(request: FuzzRequest, dialect: str) -> JsonObject:
    if dialect == "responses":
        items = [entry.item for entry in request.history if entry.item is not None]
        return {"model": "m", "instructions": request.system, "tools": request.tools, "input": items}
    tools = [
        {"type": "function", "function": {key: tool[key] for key in tool if key != "type"}} for tool in request.tools
    ]
    messages: list[JsonObject] = [{"role": "system", "content": request.system}] if request.system else []
    speaker: object = None
    for entry in request.history:
        if entry.item is None:
            continue
        own = entry.item["type"] in ("reasoning", "function_call") or speaks(entry.item)
        now = None if not own else entry.sampled_by if entry.sampled_by is not None else entry
        if not own or now != speaker:
            messages.append({"role": "assistant", "content": None} if own else _chat(entry.item))
        speaker = now
        if own:
            _say(messages[-1], entry.item)
    return {"model": "m", "messages": messages, "tools": tools}


def _say(message: JsonObject, item: JsonObject) -> None:
    if item["type"] == "reasoning":
        message["reasoning_content"] = "".join(part["text"] for part in item["summary"])
    elif item["type"] == "message":
        message["content"] = text_of(item)
    else:
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        message["tool_calls"] = [*message.get("tool_calls", []), call]


def _chat(item: JsonObject) -> JsonObject:
    if "output" in item:
        return {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
    return {"role": item["role"], "content": item["content"]}


def output_of(reply: JsonObject) -> list[JsonObject]:
    """As Responses items."""
    if "output" in reply:
        found: list[JsonObject] = reply["output"]
        return found
    message = reply["choices"][0]["message"]
    thought = message.get("reasoning_content") or message.get("reasoning")
    items: list[JsonObject] = []
    if thought:
        items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]})
    calls = message.get("tool_calls") or []
    if message.get("content") or not (calls or thought):
        items.append({"type": "message", "role": "assistant", "content": message.get("content") or ""})
    for call in calls:
        items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def text_of(item: JsonObject) -> str:
    content: Any = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def speaks(item: JsonObject) -> bool:
    return bool(item["type"] == "message" and item["role"] == "assistant")


def _is_rare(text: str) -> bool:
    """No other answer will be the same."""
    return len(text) > 12 and "cmd" not in text


def _without_repeats(history: list[HistoryItem]) -> list[HistoryItem]:
    """Else a repeated message could be taken for the one that it repeats."""
    return [entry for entry in history if entry.sampled_by is not None or entry.item is None or not speaks(entry.item)]


def _trimmed(entry: HistoryItem) -> HistoryItem:
    item = entry.item
    if entry.sampled_by is not None or item is None:
        return entry
    return replace(entry, item={**item, **{key: item[key].strip() for key in ("content", "output") if key in item}})
