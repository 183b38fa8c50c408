"""A client that wanders: it appends, retries, branches, trims, rewords, prunes, truncates, sums up, tells things twice.

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
class Told:
    """An item of the client's history; None: an answer that is told by silence."""

    uid: int
    item: JsonObject | None
    said: int | None = None
    """Which call of the engine sampled it."""


class Request(NamedTuple):
    history: list[Told]
    system: str
    tools: list[JsonObject]
    appends_to: int | None = None
    """The answer that it only appends to."""


class Manners(NamedTuple):
    """How a client tells what it was told."""

    dialect: str
    keeps_ids: bool
    reasoning: str
    respells: bool
    silence: str


class Wanderer:
    """One conversation. Who asks tells it the answers (`answered`)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.manners = Manners(
            rng.choice(["responses", "responses", "chat"]),
            rng.random() < 0.5,
            rng.choice(["drop", "keep", "handle"]),
            rng.random() < 0.3,
            rng.choice(["omit", "empty"]),
        )
        self.requests: list[Request] = []
        """Of each call of the engine."""
        self.outputs: list[list[JsonObject]] = []
        """What each of them said, as the client read it."""
        self.ends: list[Request] = []
        """The requests, with the answer."""
        self._uids = 0

    def first(self) -> Request:
        return Request([self.told("user")], self.rng.choice(SYSTEMS), TOOLS[: self.rng.randrange(3)])

    def body(self, request: Request) -> JsonObject:
        return _body(request, self.manners.dialect)

    def answered(self, request: Request, output: list[JsonObject]) -> None:
        """The engine's next call answered the request."""
        nth = len(self.requests)
        self.requests.append(request)
        self.outputs.append(output)
        self.ends.append(request._replace(history=[*request.history, *self.echo(nth, output)]))

    def is_silent(self, turn: int) -> bool:
        return not any("call_id" in item or (speaks(item) and text_of(item)) for item in self.outputs[turn])

    def told(self, role: str, text: str | None = None) -> Told:
        self._uids += 1
        return Told(self._uids, {"type": "message", "role": role, "content": self.text() if text is None else text})

    def text(self) -> str:
        return "".join(self.rng.choice(TEXTS) for _ in range(self.rng.choice([1, 1, 2, 4])))

    def plan(self) -> Request:
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

    def append(self, end: Request, number: int | None = None) -> Request:
        """Results, and what the user says."""
        rng = self.rng
        history = list(end.history)
        done = {told.item["call_id"] for told in history if told.item and told.item["type"].endswith("output")}
        asked = [told for told in history if told.item and told.item["type"] == "function_call"]
        results = [self.result(call) for call in asked if call.item and call.item["call_id"] not in done]
        if len(results) > 1 and rng.random() < 0.1:
            results.pop(rng.randrange(len(results)))
        if rng.random() < 0.2:
            rng.shuffle(results)
        elif rng.random() < 0.15 and history[-1].said is not None and not done:
            for result in results:
                ids = [told.item["call_id"] if told.item and "call_id" in told.item else "" for told in history]
                assert result.item is not None
                history.insert(ids.index(result.item["call_id"]) + 1, result)
            results = []
        history += results
        if history == end.history or rng.random() < 0.15:
            history += [self.told("user") for _ in range(rng.choice([1, 1, 2]))]
        return Request(history, end.system, end.tools, number)

    def result(self, call: Told) -> Told:
        self._uids += 1
        assert call.item is not None
        item = {"type": "function_call_output", "call_id": call.item["call_id"], "output": self.text()}
        return Told(self._uids, item)

    def trim(self, end: Request, number: int) -> Request:
        return self.append(end._replace(history=[_trimmed(told) for told in end.history]), number)

    def reword(self, end: Request, number: int) -> Request:
        """An answer, and maybe without its id."""
        said = self.rng.choice([told.said for told in end.history if told.said is not None])
        history = [self.reworded(told) if told.said == said else told for told in _without_repeats(end.history)]
        return self.append(end._replace(history=history))

    def reworded(self, told: Told) -> Told:
        item = told.item
        if item is None or item["type"] == "reasoning":
            return told
        changed = {key: item[key] for key in item if key != "id" or self.rng.random() < 0.5}
        if item["type"] == "function_call":
            return replace(told, item={**changed, "arguments": '{"raw": "?"}'})
        return replace(
            told, item={**changed, "content": self.rng.choice(["", "ok", "(malformed call)", text_of(item) + "."])}
        )

    def prune(self, end: Request, number: int) -> Request:
        """The text of an early result, or of what the user said."""
        own = [told for told in end.history if told.said is None and told.item and not speaks(told.item)]
        pruned = self.rng.choice(own)
        assert pruned.item is not None
        field = "output" if "output" in pruned.item else "content"
        changed = replace(pruned, item={**pruned.item, field: PRUNED})
        return self.append(end._replace(history=[changed if told is pruned else told for told in end.history]))

    def cut(self, end: Request, number: int) -> Request:
        """Head and tail."""
        history = _without_repeats(end.history)
        whole = [nth for nth in range(1, len(history)) if history[nth].said != history[nth - 1].said]
        start, stop = sorted(self.rng.choices([*whole, len(history)], k=2))
        notice = [self.told("user", NOTICE)] if self.rng.random() < 0.7 else []
        if stop < len(history) and history[stop].item is None:
            notice = []  # silence is told where it was
        return self.append(end._replace(history=[*history[:start], *notice, *history[stop:]]))

    def sum_up(self, end: Request, number: int) -> Request:
        tools = [] if self.rng.random() < 0.5 else end.tools
        return Request([self.told("user", SUMMARY)], end.system, tools)

    def retool(self, end: Request, number: int) -> Request:
        system = self.rng.choice(SYSTEMS)
        tools = TOOLS[: self.rng.randrange(3)]
        same = (system, tools) == (end.system, end.tools)
        return self.append(end._replace(system=system, tools=tools), number if same else None)

    def leave_out(self, end: Request, number: int) -> Request:
        said = self.rng.choice([told.said for told in end.history if told.said is not None])
        if self.is_silent(said):
            return self.append(end, number)
        kept = [told for told in _without_repeats(end.history) if told.said != said]
        return self.append(end._replace(history=kept))

    def repeat(self, end: Request, number: int) -> Request:
        """An answer's message is told twice."""
        spoken = [told for told in end.history if told.item and speaks(told.item) and _is_rare(text_of(told.item))]
        if not spoken:
            return self.append(end, number)
        twice = self.rng.choice(spoken)
        self._uids += 1
        assert twice.item is not None
        again = Told(self._uids, {key: twice.item[key] for key in twice.item if key != "id"})
        place = end.history.index(twice) + 1
        return self.append(end._replace(history=[*end.history[:place], again, *end.history[place:]]))

    def go_on(self, end: Request, number: int) -> Request:
        """From an answer, without a word."""
        last = end.history[-1]
        if last.item is None or not speaks(last.item):
            return self.append(end, number)
        return end._replace(appends_to=number)

    def echo(self, nth: int, output: list[JsonObject]) -> list[Told]:
        """How the client tells the answer from now on."""
        items = [self.echoed(item) for item in output]
        found: list[JsonObject | None] = [item for item in items if item is not None]
        if not any(item and ("call_id" in item or item["type"] == "reasoning" or text_of(item)) for item in found):
            empty = {"type": "message", "role": "assistant", "content": ""}
            found = [None if self.manners.silence == "omit" else (found[0] if found else empty)]
        told: list[Told] = []
        for item in found:
            self._uids += 1
            told.append(Told(self._uids, item, nth))
        return told

    def echoed(self, item: JsonObject) -> JsonObject | None:
        manners = self.manners
        item = {key: value for key, value in item.items() if manners.keeps_ids or key not in ("id", "status")}
        if item["type"] == "reasoning":
            if manners.reasoning == "keep":
                item.pop("encrypted_content", None)
            return None if manners.reasoning == "drop" else item
        if item["type"] == "message":
            return {**item, "content": text_of(item).strip() if manners.respells else text_of(item)}
        if manners.respells:
            said = json.loads(item["arguments"])
            return {**item, "arguments": json.dumps(said, sort_keys=True, separators=(",", ":"))}
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


def _body(request: Request, dialect: str) -> JsonObject:
    if dialect == "responses":
        items = [told.item for told in request.history if told.item is not None]
        return {"model": "m", "instructions": request.system, "tools": request.tools, "input": items}
    tools = [
        {"type": "function", "function": {key: tool[key] for key in tool if key != "type"}} for tool in request.tools
    ]
    messages: list[JsonObject] = [{"role": "system", "content": request.system}] if request.system else []
    speaker: object = None
    for told in request.history:
        if told.item is None:
            continue
        own = told.item["type"] in ("reasoning", "function_call") or speaks(told.item)
        now = None if not own else told.said if told.said is not None else told
        if not own or now != speaker:
            messages.append({"role": "assistant", "content": None} if own else _chat(told.item))
        speaker = now
        if own:
            _say(messages[-1], told.item)
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


def _without_repeats(history: list[Told]) -> list[Told]:
    """Else a repeated message could be taken for the one that it repeats."""
    return [told for told in history if told.said is not None or told.item is None or not speaks(told.item)]


def _trimmed(told: Told) -> Told:
    item = told.item
    if told.said is not None or item is None:
        return told
    return replace(told, item={**item, **{key: item[key].strip() for key in ("content", "output") if key in item}})
