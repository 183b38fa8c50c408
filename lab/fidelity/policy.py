"""A policy that says what a scenario says, and the parser that reads it.

Stops   an answer ends with the stop that the template writes where a result, or a user, comes behind it; with
        `eos_token` where that is none.
Form    `<think>`, then text, then `<tool_call>` blocks of JSON, as the package's own chat templates write answers:
        where a template keeps the past, a rendered answer is the sampled one.
Law     a call's arguments are read as they were written, JSON or not. A block that has no end is text.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import orjson

from paddock.errors import BugError, RequestError
from paddock.lab.fidelity.scenarios import PolicyCall, PolicyTurn, Spelling
from paddock.testing.engines import SampledAnswer
from paddock.tokens import Prompter, Vocabulary
from paddock.types import JsonObject

UNKNOWN_TOOL = "no_such_tool"
_MARK = re.compile(r"(<[^<>]*>)")
_BLOCK = re.compile(r'\n?<tool_call>\n?\{"name": ("[^"\n]*"), "arguments": (.*?)\}\n?</tool_call>', re.DOTALL)
_TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
_RESULT: JsonObject = {"role": "tool", "tool_call_id": "call_0", "content": "Seen."}
_PIECE = 2
"""Characters that are tokenised apart from others, of an answer in uncommon ids."""


class Toolset(Protocol):
    """A harness's tools, as the policy calls them."""

    @property
    def tools(self) -> list[JsonObject]:
        """As they are shown; custom ones have their type."""
        ...

    def shell(self, line: str) -> JsonObject:
        """A call that runs a line of shell text."""
        ...

    def closing(self) -> list[JsonObject]:
        """The answer that ends a run."""
        ...


class AnswerStops(NamedTuple):
    """Ids that end answers of a policy that writes as its template does."""

    text: int
    """Ends an answer without calls."""
    calls: int
    """Ends an answer with calls."""


def answer_stops(prompter: Prompter, vocabulary: Vocabulary) -> AnswerStops:
    stops = vocabulary.stops
    eos = stops.get(vocabulary.special_texts.get("eos_token", ""), next(iter(stops.values())))

    def stop_before(follows: JsonObject) -> int:
        try:
            first = prompter.after([], [follows], [_TOOL])[:1]
        except RequestError:
            return eos
        return next((token for token in first if token in vocabulary.stop_ids), eos)

    return AnswerStops(stop_before({"role": "user", "content": "?"}), stop_before(_RESULT))


class FidelityPolicy:
    """Answers a call of the engine with the text that was last scripted."""

    def __init__(self, vocabulary: Vocabulary, stops: AnswerStops) -> None:
        """`vocabulary`: not the server's, whose work is counted."""
        self._vocabulary = vocabulary
        self._stops = stops
        self._next: SampledAnswer | None = None
        self._encoded: dict[tuple[str, bool], list[int]] = {}
        """Ids of earlier texts; many harnesses get the same."""

    def __call__(self, _prompt: list[int]) -> SampledAnswer:
        answer, self._next = self._next, None
        if answer is None:
            raise BugError("the engine was asked for what nobody scripted", kind="unscripted")
        return answer

    def say(self, text: str, *, cut: bool = False, uncommon: bool = False, as_call: bool | None = None) -> None:
        """Script the answer to the next call. `cut`: without its last third and its stop; `as_call`: it ends as an
        answer with calls does; None: if it has one."""
        cached = self._encoded.get((text, uncommon))
        ids = cached if cached is not None else self._ids(text, uncommon=uncommon)
        self._encoded[text, uncommon] = ids
        has_calls = as_call if as_call is not None else _BLOCK.search(text) is not None
        stop = self._stops.calls if has_calls else self._stops.text
        self._next = SampledAnswer(ids[: 2 * len(ids) // 3], "length") if cut else SampledAnswer([*ids, stop])

    def _ids(self, text: str, *, uncommon: bool) -> list[int]:
        pieces = [text] if not uncommon else [piece for part in _MARK.split(text) for piece in _pieces(part)]
        return [token for piece in pieces for token in self._vocabulary.encode(piece)]

    def forget(self) -> None:
        """Drop an answer that nobody asked for."""
        self._next = None


def answer_text(turn: PolicyTurn, toolset: Toolset, first_file: int) -> str:
    """An answer, with calls of the tools that `toolset` shows. Its calls name files from `first_file` on."""
    thought = f"<think>\n{turn.thought}\n</think>\n\n" if turn.thought else ""
    calls = [_call(call, toolset, f"notes-{first_file + nth}.txt") for nth, call in enumerate(turn.calls)]
    return thought + "\n".join([*([turn.text] if turn.text else []), *calls])


def closing_text(toolset: Toolset) -> str:
    """The answer that ends a run."""
    item = toolset.closing()[0]
    if item["type"] == "message":
        return str(item["content"][0]["text"])
    return _block(item["name"], item["arguments"])


def _call(call: PolicyCall, toolset: Toolset, file: str) -> str:
    if call.what == "unknown":
        return _block(UNKNOWN_TOOL, spell({"path": file}, call.spelling))
    custom = next((str(tool["name"]) for tool in toolset.tools if tool.get("type") == "custom"), None)
    if call.what == "patch" and custom is not None:
        patch = f"*** Begin Patch\n*** Add File: {file}\n+first\n+\n*** End Patch\n"
        return _block(custom, spell({"input": patch}, call.spelling))
    item = toolset.shell(f"{call.line} {file}")
    return _block(item["name"], spell(orjson.loads(item["arguments"]), call.spelling))


def _block(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'


def spell(arguments: JsonObject, spelling: Spelling) -> str:
    """JSON, as a policy may write it."""
    plain = json.dumps(arguments, ensure_ascii=spelling == "escaped")
    if spelling == "compact":
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    if spelling == "spaced":
        return (
            "{ " + ",\n  ".join(f"{json.dumps(key)} :  {json.dumps(value)}" for key, value in arguments.items()) + " }"
        )
    if spelling == "twice":
        key, value = next(iter(arguments.items()))
        return f"{{{json.dumps(key)}: {json.dumps(value)}, {plain[1:]}"
    return plain[:-1] if spelling == "broken" else plain


def _pieces(part: str) -> list[str]:
    return [part] if _MARK.fullmatch(part) else [part[at : at + _PIECE] for at in range(0, len(part), _PIECE)]


class RawParser:
    """Reads one answer; calls keep their arguments as they were written."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        self._texts.append(text)
        return self.whole("".join(self._texts), ids) if finished else None

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        thought, separator, rest = text.partition("</think>")
        content = rest.removeprefix("\n\n") if separator else text
        message: JsonObject = {"reasoning_content": thought.removeprefix("<think>").strip("\n")} if separator else {}
        calls = [
            {"index": nth, "type": "function", "function": {"name": json.loads(name), "arguments": arguments}}
            for nth, (name, arguments) in enumerate(_BLOCK.findall(content))
        ]
        return {**message, "content": _BLOCK.sub("", content), "tool_calls": calls}
