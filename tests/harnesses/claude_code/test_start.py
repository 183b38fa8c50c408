"""Claims about how Claude Code is started: its variables say what is meant, none is secret or differs between
runs; what of its requests is changed or refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError, InfraError
from paddock.harness import Exit, ModelEndpoint, RequestFilter, Task, make_harness
from paddock.harness.programs.cli import HOME
from paddock.harness.programs.step_recorder import StepRecorder
from paddock.harnesses.claude_code import ClaudeCodeHarness
from paddock.testing.native import ModelWithoutPrograms
from paddock.types import JsonObject, TurnSummary
from paddock.types.responses import message_item

ENDPOINT = ModelEndpoint(base_url="http://127.0.0.1:8765/v1", model="claude-of-the-user")
TASK = Task(prompt="Fix 'it'.\n")
TOLD = Task(prompt="Fix 'it'.\n", system='Be "careful".\n')
DATE = "# currentDate\nToday's date is {}.\n"
MAIN: JsonObject = {"messages": [{"role": "user", "content": "Fix it."}], "tools": [{"name": "Bash"}]}


def made(**settings: object) -> ClaudeCodeHarness:
    harness = make_harness("claude_code", dict(settings))
    assert isinstance(harness, ClaudeCodeHarness)
    return harness


def start(task: Task = TASK, **settings: object) -> Any:
    return made(**settings).start(task, ENDPOINT, "/testbed")


def after(argv: Any, flag: str) -> str:
    return str(argv[list(argv).index(flag) + 1])


def test_its_only_endpoint_is_the_tunnel_and_its_only_model_the_policy() -> None:
    said = start()
    assert (said.env["ANTHROPIC_BASE_URL"], said.env["ANTHROPIC_API_KEY"]) == ("http://127.0.0.1:8765", "unused")
    name = after(said.argv, "--model")
    assert {value for key, value in said.env.items() if key.endswith("_MODEL")} == {name}
    assert "claude" not in name
    assert ENDPOINT.model not in str(said)


def test_a_policy_may_take_its_time_and_retries_end() -> None:
    env = start().env
    assert int(env["API_TIMEOUT_MS"]) > 24 * 3600 * 1000
    assert env["API_FORCE_IDLE_TIMEOUT"] == env["CLAUDE_ENABLE_STREAM_WATCHDOG"] == "0"
    assert int(env["CLAUDE_CODE_MAX_RETRIES"]) < 10


def test_what_a_task_does_not_say_is_its_own_prompt() -> None:
    said = start()
    assert not said.files
    assert not any("system-prompt" in word for word in said.argv)
    assert made().prompts.system is None


@pytest.mark.parametrize(
    ("way", "flag"), [("replace", "--system-prompt-file"), ("append", "--append-system-prompt-file")]
)
def test_a_tasks_system_prompt_stands_in_its_place_or_after_it(way: str, flag: str) -> None:
    said = start(TOLD, task_system=way)
    ((path, data),) = said.files.items()
    assert data.decode() == TOLD.system
    assert after(said.argv, flag) == f"{HOME}/{path}"


def test_the_task_is_no_argument_and_the_same_task_starts_the_same() -> None:
    said = start(TOLD)
    assert said.stdin == TOLD.prompt.encode()
    assert not any("Fix" in word or "careful" in word for word in said.argv)
    assert start(TOLD) == said


def test_it_shows_the_tools_that_are_set_and_an_agent_when_told() -> None:
    shown = after(start().argv, "--tools").split(",")
    assert {"Bash", "Read", "Edit", "Write", "Grep", "Glob", "TodoWrite"} == set(shown)
    assert after(start(tools=["Bash"], subagents=True).argv, "--tools") == "Bash,Agent"
    with pytest.raises(ConfigError, match="tools"):
        made(tools=["Bash(rm *)"])


@given(st.integers(1, 960_000), st.integers(1, 200_000))
def test_it_sums_up_at_the_very_token_that_is_told(at_tokens: int, output_tokens: int) -> None:
    env = start(compact_at_tokens=at_tokens, output_tokens=output_tokens).env
    room = int(env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"]) - min(output_tokens, 20_000)
    assert int(room * (float(env["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"]) / 100)) == at_tokens
    assert "DISABLE_COMPACT" not in env


def test_it_never_sums_up_untold() -> None:
    env = start().env
    assert env["DISABLE_COMPACT"] == "1"
    assert int(env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]) >= 100_000_000


def test_a_repositorys_own_words_are_read_when_told() -> None:
    assert start().env["CLAUDE_CODE_DISABLE_CLAUDE_MDS"] == "1"
    assert "CLAUDE_CODE_DISABLE_CLAUDE_MDS" not in start(project_docs=True).env


def test_another_version_is_one_word_and_its_licence_is_told_in_words() -> None:
    program = made(version="2.1.330").program
    assert program.folder == "claude_code-2.1.330"
    assert "proprietary" in program.licence
    with pytest.raises(ConfigError, match="compact_at_token"):
        made(compact_at_token=1)


@given(st.dates().map(lambda day: day.isoformat()))
def test_the_date_is_pinned(day: str) -> None:
    pin = made(prompt_date="2025-03-01").request_rules().pin
    assert pin(DATE.format(day)) == pin(pin(DATE.format(day))) == DATE.format("2025-03-01")


def test_the_kernel_is_pinned_and_so_is_what_the_provider_bills_by() -> None:
    pin = made().request_rules().pin
    told = "# Environment\n - Platform: linux\n - OS Version: Linux {}\n - You are powered by it."
    assert pin(told.format("6.1.0-a")) == pin(told.format("5.15.0"))
    assert pin("x-anthropic-billing-header: cc_version=1.2; cch=ab;") == pin("x-anthropic-billing-header: cch=cd;")


@given(st.text())
def test_nothing_else_is_pinned(text: str) -> None:
    assert made().request_rules().pin(text) == text


def test_what_is_asked_without_tools_is_no_part_of_the_task() -> None:
    aside = made().request_rules().side_request
    assert aside("/v1/messages", MAIN) is None
    assert aside("/v1/messages", {"messages": MAIN["messages"]}) == "without tools"


class Answering(ModelWithoutPrograms):
    """A model with one recorded turn."""

    name = "policy"

    async def respond(self, body: JsonObject) -> JsonObject:
        raise AssertionError("a program asks over a tunnel")

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        return ENDPOINT

    async def transcript(self, skip: int = 0) -> list[TurnSummary]:
        turn = TurnSummary(id="t", parent=None, finish_reason="stop", output=[message_item("Done.")], sampled_tokens=1)
        return [turn][skip:]


@pytest.mark.parametrize("ended", ["finished", "turn_limit"])
async def test_an_end_after_an_answer_that_is_in_no_record_is_no_end(ended: Any) -> None:
    harness = made()
    said = StepRecorder(Answering(), lambda _step: None, rules=harness.request_rules(), note=lambda _line: None)
    for _retry in range(2):
        said.filter("/v1/messages", MAIN)
    await said.finish()
    left = Exit(ended=ended, turns=1)
    harness.check(left, said)
    said.filter("/v1/messages", {**MAIN, "messages": []})
    if ended != "finished":
        harness.check(left, said)
        return
    with pytest.raises(InfraError) as failed:
        harness.check(left, said)
    assert failed.value.kind == "answer_broke_off"
