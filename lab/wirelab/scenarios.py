"""What happens in the wire lab: answers of the model, written once for all programs.

Core    the first six are played through every program, all through Codex and OpenCode.
Words   what a scenario says, runs or writes has words that begin with `lab-`, which no program has: they are recognised
        as ours wherever they come back. The big file alone has none.
Ids     items and calls are numbered over a scenario.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from paddock.errors import ConfigError
from paddock.harness.programs.lab import COMPACT_AT_TOKENS, LabTools
from paddock.server.dialects import reasoning_item
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

PROMPT = "lab-task: please look after lab-calc.\n"
SYSTEM = "lab-system: be careful."
CALC = "lab-calc.py"
OLD_LINE, NEW_LINE = "    return a - b  # lab-old", "    return a + b  # lab-new"
FILES = {
    CALC: f"def add(a, b):\n{OLD_LINE}\n",
    "big.txt": "".join(f"row {number:06d} of this file\n" for number in range(40_000)),
}
LAST_WORDS = "lab-end: all is done."
USED_TOKENS = 100
"""Tokens that a call uses, as its answer says."""
ODD = "lab-odd: \u00e4\u4e2d\U0001f600\u00a0'\"\\ lab-end\t."
Fault = Literal["rate", "server", "overflow", "cut", "failed", "hang", "limit"]


class ScriptedTurn(NamedTuple):
    """One answer of the model."""

    items: Sequence[JsonObject] = ()
    fault: Fault | None = None
    """`rate`: 429; `server`: 500; `overflow`: the history is too long; `cut`: the connection ends in the middle;
    `failed`: an event says that it failed; `hang`: no answer comes; `limit`: the answer ends at its own limit."""
    used_tokens: int = USED_TOKENS


class WireScenario(NamedTuple):
    name: str
    turns: Callable[[LabTools], list[ScriptedTurn]]
    core: bool = False
    needs: Literal["edit", "compact"] | None = None
    """Only for programs whose `LabTools` have it."""


def numbered_turns(scenario: WireScenario, tools: LabTools) -> list[ScriptedTurn]:
    """Its turns, their items numbered."""
    count = 0
    turns = []
    for turn in scenario.turns(tools):
        items = []
        for item in turn.items:
            count += 1
            items.append(_with_ids(item, str(count)))
        turns.append(turn._replace(items=items))
    return turns


def find_scenarios(names: Sequence[str], tools: LabTools) -> list[WireScenario]:
    """The scenarios of those names; none named: all that the program is to play."""
    playable = {case.name: case for case in SCENARIOS if case.needs is None or getattr(tools, case.needs) is not None}
    if unknown := [name for name in names if name not in playable]:
        raise ConfigError(f"scenario {unknown[0]}: none of {', '.join(playable)}", kind="scenario_unknown")
    return [playable[name] for name in names] or [
        case for case in playable.values() if case.core or not tools.core_only
    ]


def closing_turn(tools: LabTools, number: int) -> ScriptedTurn:
    """The answer after the last turn: it ends a run. `number`: of the call."""
    items = [tools.finish()] if tools.finish is not None else [message_item(LAST_WORDS)]
    return ScriptedTurn([_with_ids(item, f"end{number}") for item in items])


def our_texts(scenario: WireScenario, tools: LabTools) -> Iterator[str]:
    """The texts that come from us."""
    yield from (PROMPT, PROMPT.strip(), SYSTEM, LAST_WORDS, OLD_LINE, NEW_LINE, "/testbed", CALC)
    for turn in [*numbered_turns(scenario, tools), closing_turn(tools, 0)]:
        for item in turn.items:
            yield from _texts(item)
            for key in ("arguments", "input"):
                yield from _inner(item.get(key))


def _with_ids(item: JsonObject, number: str) -> JsonObject:
    ids = {"id": f"item_lab{number}"}
    if "call_id" in item:
        ids["call_id"] = f"call_lab{number}"
    return {**item, **ids}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _inner(text: object) -> Iterator[str]:
    try:
        yield from _texts(json.loads(text) if isinstance(text, str) else None)
    except ValueError:
        return


def _shell(tools: LabTools, line: str, more: JsonObject | None = None) -> JsonObject:
    return call_item(tools.tool, json.dumps({**tools.line(_calm(line)), **(more or {})}))


def _calm(line: str) -> str:
    """The line, with a pause after its start and before its end: some programs lose output that comes with these."""
    return f"sleep 0.3; {line}; sleep 0.3"


def _raw(tools: LabTools, arguments: str) -> list[ScriptedTurn]:
    return [ScriptedTurn([call_item(tools.tool, arguments)])]


def _broken(tools: LabTools) -> str:
    return json.dumps(tools.line(_calm("echo lab-broken")))[:-1]


def _twice(tools: LabTools) -> str:
    first, then = json.dumps(tools.line(_calm("echo lab-first"))), json.dumps(tools.line(_calm("echo lab-second")))
    return f"{first[:-1]}, {then[1:]}"


def _spaced(tools: LabTools) -> str:
    """JSON with white space and escapes that nobody needs, and letters that need some for many encoders."""
    pairs = tools.line(_calm(f"printf '%s\\n' {shlex.quote(ODD)}")).items()
    pairs_text = [f"{json.dumps(key)} :  {json.dumps(value, ensure_ascii=False)}" for key, value in pairs]
    return ("{ " + " ,\n\t".join(pairs_text) + " }\n").replace("lab-end", "lab-\\u0065nd")


def _edit_turns(tools: LabTools) -> list[ScriptedTurn]:
    assert tools.edit is not None  # `needs`
    edit = tools.edit(CALC, OLD_LINE, NEW_LINE)
    item = {"call_id": "", "status": "completed", **edit}
    return [ScriptedTurn([item]), ScriptedTurn([_shell(tools, f"cat {CALC}")])]


def _single_turn(*items: Callable[[LabTools], JsonObject]) -> Callable[[LabTools], list[ScriptedTurn]]:
    return lambda tools: [ScriptedTurn([item(tools) for item in items])]


def _line(line: str, more: Callable[[LabTools], JsonObject] = lambda _tools: {}) -> Callable[[LabTools], JsonObject]:
    return lambda tools: _shell(tools, line, more(tools))


def _around_fault(fault: Fault) -> Callable[[LabTools], list[ScriptedTurn]]:
    """A call that is answered, a fault, then a call again."""
    return lambda tools: [
        ScriptedTurn([_shell(tools, "echo lab-before")]),
        ScriptedTurn([message_item("lab-half: said before the fault."), _shell(tools, "echo lab-lost")], fault),
        ScriptedTurn([_shell(tools, "echo lab-after")]),
    ]


def _thought(_tools: LabTools) -> JsonObject:
    return reasoning_item("lab-thought: what is to be done?")


def _text(_tools: LabTools) -> JsonObject:
    return message_item("lab-text: here is what I do.")


def _compaction_turns(tools: LabTools) -> list[ScriptedTurn]:
    return [
        ScriptedTurn([_shell(tools, "echo lab-early")]),
        ScriptedTurn([_shell(tools, "echo lab-filled")], used_tokens=5 * COMPACT_AT_TOKENS),
        ScriptedTurn([message_item("lab-summary: much was done.")]),
        ScriptedTurn([_shell(tools, "echo lab-late")]),
    ]


SCENARIOS = [
    WireScenario("one_message", lambda _tools: [], core=True),
    WireScenario("one_call", _single_turn(_line("echo lab-out")), core=True),
    WireScenario("parallel_calls", _single_turn(_line("sleep 1; echo lab-left"), _line("echo lab-right")), core=True),
    WireScenario("failing_command", _single_turn(_line("echo lab-wrong >&2; sleep 0.3; exit 3")), core=True),
    WireScenario("malformed_json", lambda tools: _raw(tools, _broken(tools)), core=True),
    WireScenario("unknown_tool", lambda _tools: [ScriptedTurn([call_item("lab_tool", '{"lab": 1}')])], core=True),
    WireScenario("not_an_object", lambda tools: _raw(tools, '["sleep 0.3; echo lab-list; sleep 0.3"]')),
    WireScenario("missing_argument", lambda tools: _raw(tools, "{}")),
    WireScenario("duplicate_keys", lambda tools: _raw(tools, _twice(tools))),
    WireScenario("think_only", _single_turn(_thought)),
    WireScenario("reasoning_and_call", _single_turn(_thought, _line("echo lab-reasoned"))),
    WireScenario("text_and_call", _single_turn(_text, _line("echo lab-told"))),
    WireScenario("empty_answer", lambda _tools: [ScriptedTurn()]),
    WireScenario("huge_output", _single_turn(_line("cat big.txt"))),
    WireScenario("edit", _edit_turns, needs="edit"),
    WireScenario("odd_text", lambda tools: _raw(tools, _spaced(tools))),
    WireScenario("cut_stream", _around_fault("cut")),
    WireScenario("failed_stream", _around_fault("failed")),
    WireScenario("rate_limited", _around_fault("rate")),
    WireScenario("server_error", _around_fault("server")),
    WireScenario("overflow", _around_fault("overflow")),
    WireScenario("cut_answer", _around_fault("limit")),
    WireScenario("hanging", _around_fault("hang")),
    WireScenario("compaction", _compaction_turns, needs="compact"),
    WireScenario(
        "slow_command", _single_turn(_line("echo lab-begun; sleep 10; echo lab-late", lambda tools: tools.slow))
    ),
]
