"""Claims about how OpenCode is started: its files say what is meant, nothing in them is secret or differs between runs;
what of its requests is changed or refused."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError, InfraError
from paddock.harness import ModelEndpoint, ProgramOutput, RequestFilter, RunLimits, Task, Workspace, make_harness
from paddock.harnesses.opencode_cli import OpenCodeCliHarness
from paddock.testing.native import ModelWithoutPrograms
from paddock.types import JsonObject, TurnSummary
from paddock.types.responses import message_item

ENDPOINT = ModelEndpoint(base_url="http://127.0.0.1:8765/v1", model="gpt-5-of-the-user")
TASK = Task(prompt="Fix 'it'.\n", system='Be "careful".\n')
ENVIRONMENT = "<env>\n  Working directory: /testbed\n  Platform: linux\n  Today's date: {}\n</env>"
MAIN: JsonObject = {"messages": [{"role": "user", "content": "Fix it."}], "tools": [{"type": "function"}]}
SUMMARY: JsonObject = {
    "messages": [
        {"role": "system", "content": "You sum up."},
        {"role": "user", "content": "Here is the conversation so far:\n\nGenerate a title for this conversation:"},
    ]
}


def made(**settings: object) -> OpenCodeCliHarness:
    harness = make_harness("opencode_cli", dict(settings))
    assert isinstance(harness, OpenCodeCliHarness)
    return harness


def config(**settings: object) -> Any:
    files = made(**settings).start(TASK, ENDPOINT, "/testbed").files
    return json.loads(files[".config/opencode/opencode.json"])


@pytest.mark.parametrize(
    ("dialect", "client"),
    [
        ("chat", "@ai-sdk/openai-compatible"),
        ("responses", "@ai-sdk/openai"),
        ("messages", "@ai-sdk/anthropic"),
    ],
)
def test_its_only_provider_is_the_tunnel(dialect: str, client: str) -> None:
    told = config(dialect=dialect)
    (name,) = told["enabled_providers"]
    (provider,) = told["provider"].values()
    assert provider["npm"] == client
    options = provider["options"]
    assert (options["baseURL"], options["apiKey"]) == (ENDPOINT.base_url, "unused")
    assert options["timeout"] is options["headerTimeout"] is options["chunkTimeout"] is False
    assert told["model"] == told["small_model"] == f"{name}/{next(iter(provider['models']))}"


@pytest.mark.parametrize("toolset", ["edit", "apply_patch"])
def test_the_models_name_decides_tools_and_is_not_the_users(toolset: str) -> None:
    harness = made(toolset=toolset)
    started = harness.start(TASK, ENDPOINT, "/testbed")
    name = started.argv[-1]
    assert started.argv[-2] == "--model"
    assert ("gpt-" in name) is (toolset == "apply_patch")
    assert not any(ENDPOINT.model.encode() in data for data in started.files.values())


def test_the_agents_prompt_is_the_tasks_and_all_else_is_off() -> None:
    told = config()
    agent = told["agent"]
    assert agent[told["default_agent"]]["prompt"] == TASK.system
    assert {name for name, one in agent.items() if one.get("disable")} == {
        *("title", "summary", "explore", "plan", "general", "compaction")
    }
    assert told["compaction"]["auto"] is told["compaction"]["prune"] is False
    assert not any(agent[told["default_agent"]]["tools"].values())


def test_sub_agents_are_there_when_told_and_have_the_same_words() -> None:
    told = config(subagents=True)
    assert told["agent"][told["default_agent"]]["tools"]["task"] is True
    assert told["agent"]["general"]["prompt"] == TASK.system
    assert not any(told["agent"]["general"]["tools"].values())


def test_it_sums_up_only_when_told() -> None:
    told = config(compact_at_tokens=5000)
    ((model,),) = [provider["models"].values() for provider in told["provider"].values()]
    assert (told["compaction"]["auto"], told["compaction"]["reserved"]) == (True, 0)
    assert model["limit"]["input"] == 5000
    assert not told["agent"].get("compaction", {}).get("disable")


def test_the_task_is_no_argument_and_the_same_task_starts_the_same() -> None:
    started = made().start(TASK, ENDPOINT, "/testbed")
    assert started.stdin == TASK.prompt.encode()
    assert not any("Fix" in word for word in started.argv)
    assert made().start(TASK, ENDPOINT, "/testbed") == started


def test_no_package_is_fetched_for_it() -> None:
    files = made().start(TASK, ENDPOINT, "/testbed").files
    locked = json.loads(files[".config/opencode/package-lock.json"])
    assert list(locked["packages"][""]["dependencies"]) == ["@opencode-ai/plugin"]
    assert any(path.startswith(".config/opencode/node_modules/") for path in files)


def test_another_version_is_one_word_and_a_wrong_setting_is_named() -> None:
    harness = made(version="1.19.0")
    assert harness.program.folder == "opencode_cli-1.19.0"
    assert "/opt/paddock/opencode_cli-1.19.0/bin" in harness.start(TASK, ENDPOINT, "/testbed").argv
    with pytest.raises(ConfigError, match="compact_at_token"):
        made(compact_at_token=1)


@given(st.dates().map(lambda day: day.strftime("%a %b %d ") + f"{day.year:04d}"))
def test_the_date_is_pinned_in_the_environment_that_it_tells(day: str) -> None:
    pin = made(prompt_date="2025-03-01").request_rules().pin
    assert pin(ENVIRONMENT.format(day)) == pin(pin(ENVIRONMENT.format(day))) == ENVIRONMENT.format("Sat Mar 01 2025")


@given(st.text())
def test_nothing_else_is_pinned(text: str) -> None:
    assert made().request_rules().pin(text) == text
    said = f"Today's date: Sun Nov 22 2026\n{text}"
    assert made().request_rules().pin(said) == said


@pytest.mark.parametrize("key", ["messages", "input"])
@pytest.mark.parametrize("compact_at_tokens", [None, 5000])
def test_titles_are_no_part_of_the_task(key: str, compact_at_tokens: int | None) -> None:
    content: object = "Generate a title for this conversation:\n"
    if key == "input":
        content = [{"type": "input_text", "text": content}]
    title = {key: [{"role": "system", "content": "You name."}, {"role": "user", "content": content}, *MAIN["messages"]]}
    aside = made(compact_at_tokens=compact_at_tokens).request_rules().side_request
    assert aside("/v1/x", title) == "title"
    assert aside("/v1/x", MAIN) is None
    assert aside("/v1/x", {**title, "tools": MAIN["tools"]}) is None


def test_a_summary_is_part_of_the_task_where_there_are_any() -> None:
    assert made().request_rules().side_request("/v1/x", SUMMARY) == "without tools"
    assert made(compact_at_tokens=5000).request_rules().side_request("/v1/x", SUMMARY) is None


class AskedAgain(ModelWithoutPrograms):
    """A model whose one answer broke off and came again."""

    name = "policy"
    has_repeated_call = True

    async def respond(self, body: JsonObject) -> JsonObject:
        raise AssertionError("a program asks over a tunnel")

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        return ENDPOINT

    async def transcript(self, skip: int = 0) -> list[TurnSummary]:
        turn = TurnSummary(id="t", parent=None, finish_reason="stop", output=[message_item("Done.")], sampled_tokens=1)
        return [turn][skip:]


class ExitReason:
    """A workspace where every program ends well."""

    workdir = "/testbed"

    async def write(self, path: str, data: bytes) -> None:
        return

    async def launch(self, argv: Any, *, stdin: bytes = b"", env: Any) -> ProgramOutput:
        return ProgramOutput(0, b"", b"", ())

    def note_command(self, line: str) -> None:
        raise AssertionError(line)


@pytest.mark.parametrize("again", [False, True])
async def test_a_run_whose_history_holds_pieces_of_a_broken_answer_has_failed(again: bool) -> None:
    model, workspace = AskedAgain(), cast("Workspace", ExitReason())
    model.has_repeated_call = again
    running = made().run(TASK, workspace, model, RunLimits(), lambda _step: None)
    if not again:
        assert (await running).ended == "finished"
        return
    with pytest.raises(InfraError) as failed:
        await running
    assert failed.value.kind == "answer_broke_off"
