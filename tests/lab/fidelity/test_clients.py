"""Claims about models of clients: they rewrite history as the programs do, and their tokens are exact all the same."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from paddock.lab.fidelity import PolicyTurn, Scenario, ScenarioRun, bench
from paddock.lab.fidelity.clients import (
    CLIENTS,
    ChatClient,
    ClientCall,
    ClientSubject,
    MessagesClient,
    ResponsesClient,
    SimulatedClient,
)
from paddock.lab.fidelity.clients.claude_code import ClaudeCode
from paddock.lab.fidelity.clients.codex import CodexCli
from paddock.lab.fidelity.clients.mini_swe_agent import MiniSweAgent
from paddock.lab.fidelity.clients.opencode import OpencodeChat, OpencodeMessages, OpencodeResponses
from paddock.lab.fidelity.clients.openhands import OpenhandsChat
from paddock.lab.fidelity.clients.pi import PiResponses
from paddock.lab.fidelity.clients.qwen_code import QwenCode
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item


@pytest.mark.parametrize("cls", CLIENTS, ids=lambda cls: f"{cls.NAME}-{cls.DIALECT}")
async def test_every_client_is_exact(cls: type[SimulatedClient], run_subject: Any) -> None:
    found = await run_subject(ClientSubject(cls))
    assert (found.verdict, found.worse, found.total.forks) == ("exact", [], 0)
    assert found.total.append_only == 1.0
    assert found.total.tokenising < 1.0
    retried = next(run for run in found.runs if run.scenario == "retry")
    assert retried.figures.calls == retried.requests - 2


class Prunes(ChatClient):
    """Empties results once two newer ones are there."""

    NAME = "prunes"

    def request_body(self) -> JsonObject:
        body = super().request_body()
        results = [message for message in body["messages"] if message["role"] == "tool"]
        body["messages"] = [
            {**message, "content": "[pruned]"} if message in results[:-2] else message for message in body["messages"]
        ]
        return body


async def test_a_client_that_drops_results_early_forks(run_subject: Any) -> None:
    found = await run_subject(ClientSubject(Prunes), ("loop",))
    figures = found.total
    # Each request from the fourth on has another result emptied: it goes on from the turn before that one.
    assert (found.verdict, figures.forks, figures.append_only) == ("split", 10, 2 / 12)
    assert figures.prefix_factor > 1.5
    assert figures.dropped_tokens == 0 < figures.dropped_whole_tokens


class Renames(ChatClient):
    """Gives calls ids of its own, new ones with each request."""

    NAME = "renames"

    def request_body(self) -> JsonObject:
        text = orjson.dumps(super().request_body()).decode()
        return dict(orjson.loads(text.replace('"call_', f'"mine_{len(self.steps)}_')))


async def test_a_client_that_renames_calls_starts_anew_each_time(run_subject: Any) -> None:
    found = await run_subject(ClientSubject(Renames), ("loop",))
    assert (found.verdict, found.total.calls, found.total.forks) == ("split", 13, 12)
    assert found.total.tokenising > 5


class NoIds(ChatClient):
    """Talks, calls nothing, and trims what it sends back."""

    NAME = "no_ids"

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        return [{"role": "assistant", "content": (reply["choices"][0]["message"].get("content") or "").strip()}]


async def test_texts_alone_are_enough_to_continue(run_subject: Any, thinking: Any) -> None:
    talk = Scenario("chat", tuple(PolicyTurn((), "Hm.", f"\n Step {nth}. \n") for nth in range(5)))
    async with bench(thinking) as runner:
        run = await runner.run(ClientSubject(NoIds), talk)
    assert run is not None
    assert (run.verdict, run.figures.append_only, run.figures.calls) == ("exact", 1.0, 6)


async def test_a_cut_answer_ends_codex_and_not_others(run_subject: Any) -> None:
    codex = await run_subject(ClientSubject(CodexCli), ("cut",))
    other = await run_subject(ClientSubject(MiniSweAgent), ("cut",))
    assert (codex.runs[0].requests, other.runs[0].requests) == (2, 4)
    assert codex.verdict == other.verdict == "exact"


async def test_a_compaction_is_two_branches_more(run_subject: Any) -> None:
    (run,) = (await run_subject(ClientSubject(CodexCli), ("forget",))).runs
    assert (run.verdict, run.verdict_in_combination, run.branches_by_design, run.figures.forks) == (
        "split",
        "exact",
        2,
        2,
    )


def answer(client: SimulatedClient, *calls: tuple[str, str], thought: str = "") -> list[JsonObject]:
    """What a client keeps of an answer that says a word and makes calls."""
    items = [call_item(name, arguments, f"call_{nth}") for nth, (name, arguments) in enumerate(calls)]
    said: JsonObject
    if isinstance(client, ResponsesClient):
        reasoning = [{"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": thought}]}]
        said = {"output": [*(reasoning if thought else []), message_item(" So. "), *items]}
    elif isinstance(client, MessagesClient):
        uses = [
            {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": orjson.loads(item["arguments"])}
            for item in items
        ]
        thinking = [{"type": "thinking", "thinking": thought, "signature": "turn_1"}] if thought else []
        said = {"content": [*thinking, {"type": "text", "text": " So. "}, *uses]}
    else:
        entries = [
            {"id": item["call_id"], "type": "function", "function": {k: item[k] for k in ("name", "arguments")}}
            for item in items
        ]
        message = {"role": "assistant", "content": " So. ", "tool_calls": entries}
        said = {"choices": [{"message": message | ({"reasoning_content": thought} if thought else {})}]}
    return client.answer_items(said, client.calls_of(said))


SPACED = '{ "command":  "ls \\u00e9", "command": "ls" }'


def test_codex_sends_items_back_as_they_came() -> None:
    reasoning, message, call = answer(CodexCli(), ("exec_command", SPACED), thought="Hm.")
    assert reasoning["encrypted_content"] is None
    assert (call["arguments"], message["content"][0]["text"]) == (SPACED, " So. ")


def test_opencode_writes_arguments_again_and_renames_bad_calls() -> None:
    message, call, bad, unknown = answer(
        OpencodeResponses(), ("bash", SPACED), ("bash", "{"), ("other", "{}"), thought="Hm."
    )
    assert message["content"][0]["text"] == " So. "
    assert call == {"type": "function_call", "call_id": "call_0", "name": "bash", "arguments": '{"command":"ls"}'}
    assert [(one["name"], one["call_id"]) for one in (bad, unknown)] == [("invalid", "call_1"), ("invalid", "call_2")]


def test_opencode_keeps_reasoning_in_chat_and_marks_in_messages() -> None:
    (message,) = answer(OpencodeChat(), ("bash", SPACED), thought="Hm.")
    assert message["reasoning_content"] == "Hm."
    assert message["tool_calls"][0]["function"]["arguments"] == '{"command":"ls"}'
    client = OpencodeMessages()
    client.steps.append(answer(client, ("bash", '{"command": "ls"}'), thought="Hm."))
    last = client.request_body()["messages"][-1]["content"]
    assert [("cache_control" in block, block["type"]) for block in last][-1] == (True, "tool_use")
    assert last[0] == {"type": "thinking", "thinking": "Hm.", "signature": "turn_1"}


def test_openhands_drops_reasoning_and_splits_malformed_turns() -> None:
    first, second = answer(OpenhandsChat(), ("terminal", SPACED), ("terminal", "{"), thought="Hm.")
    assert "reasoning_content" not in first
    assert first["tool_calls"][0]["function"]["arguments"] == SPACED
    assert "_openhands_malformed_tool_call" in second["tool_calls"][0]["function"]["arguments"]
    (whole,) = answer(OpenhandsChat(), ("terminal", SPACED), ("terminal", SPACED))
    assert len(whole["tool_calls"]) == 2


async def test_openhands_tells_each_result_after_its_own_call(run_subject: Any) -> None:
    items: list[list[JsonObject]] = []

    class WatchedOpenhands(OpenhandsChat):
        async def after_turn(self, run: ScenarioRun, turn: PolicyTurn, calls: Sequence[ClientCall]) -> None:
            items.append(list(self.steps[-1]))

    found = await run_subject(ClientSubject(WatchedOpenhands), ("malformed",))
    assert [[message["role"] for message in step] for step in items] == [
        ["assistant", "tool"],
        ["assistant", "tool"],
        ["assistant", "tool", "tool"],
        ["assistant", "tool"] * 3,
        ["assistant", "tool"],
    ]
    assert found.verdict == "exact"


def test_claude_code_adds_defaults_to_arguments() -> None:
    ((*_, call),) = (message["content"] for message in answer(ClaudeCode(), ("Bash", '{"command": "ls"}')))
    assert call["input"] == {"command": "ls", "run_in_background": False, "replace_all": False}


def test_mini_swe_agent_adds_nulls() -> None:
    (message,) = answer(MiniSweAgent(), ("bash", SPACED))
    assert message["function_call"] is None
    assert message["tool_calls"][0]["function"]["arguments"] == SPACED


def test_pi_repairs_what_is_no_json() -> None:
    *_, call = answer(PiResponses(), ("bash", '{"command": "ls"'))
    assert call["arguments"] == '{"command":"ls"}'


async def test_qwen_code_asks_again_and_tells_both(run_subject: Any) -> None:
    seen: list[list[JsonObject]] = []

    class WatchedQwenCode(QwenCode):
        async def after_turn(self, run: ScenarioRun, turn: PolicyTurn, calls: Sequence[ClientCall]) -> None:
            await super().after_turn(run, turn, calls)
            seen.append(list(self.steps[-1]))

    found = await run_subject(ClientSubject(WatchedQwenCode), ("malformed",))
    assert [message["role"] for message in seen[1]] == ["assistant", "assistant", "tool", "tool"]
    assert len({message["tool_call_id"] for message in seen[1][2:]}) == 1
    assert found.verdict == "exact"
