"""mini-swe-agent itself, over a scripted model and a real sandbox: what its configuration does, and what is left.

Program the installed one, of the home that `paddock.sandbox` finds; without it these are skipped.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.conformance.harnesses import HarnessTarget, find_harness
from paddock.conformance.harnesses.fixture import FIX, FIXED, HarnessFixture, HarnessRun, harness_fixture
from paddock.conformance.harnesses.scripted_model import ScriptedReply
from paddock.errors import ConfigError, InfraError
from paddock.harness import RunLimits
from paddock.harnesses.mini_swe_agent.harness import MiniSweAgentHarness
from paddock.harnesses.mini_swe_agent.oracle import SUBMIT
from paddock.sandbox import SandboxError, SandboxSettings
from paddock.testing.sandboxes import sandbox_home
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.long, pytest.mark.sandbox]
LONG = RunLimits(max_turns=20, time_s=240.0, tool_s=60.0)
TEXT = """
agent:
  system_template: "On {{system}} {{release}} in {{cwd}}."
  instance_template: "Do this: {{task}}"
  step_limit: 3
environment: {timeout: 2, interpreter: [sh, -c], env: {WORD: from-the-file}}
model:
  model_class: litellm_textbased
  model_name: anthropic/somebody-else
  model_kwargs: {api_base: "http://192.0.2.1/", api_key: theirs, drop_params: true}
  action_regex: "<bash>(.*?)</bash>"
  observation_template: "{{output.returncode}}|{{output.output}}|{{output.exception_info}}"
"""


@pytest.fixture(scope="module")
def target() -> Iterator[HarnessTarget]:
    programs_of = SandboxSettings().home
    with sandbox_home() as home:
        found = SandboxSettings(home=home, runtime="bubblewrap", programs_of=programs_of)
        try:
            made = find_harness("harness:mini_swe_agent", settings=found)
            asyncio.run(made.ready())
        except (ConfigError, SandboxError) as error:
            pytest.skip(str(error))
        yield made


async def run(fixture: HarnessFixture, *turns: Any, **settings: Any) -> tuple[HarnessRun, MiniSweAgentHarness]:
    harness: Any = fixture.target.make(**settings)
    return await fixture.run(*turns, harness=harness, limits=LONG, closing=[bash(SUBMIT)], system=None), harness


def bash(line: Any) -> JsonObject:
    return call_item("bash", json.dumps({"command": line}))


def text(line: str) -> JsonObject:
    return message_item(f"THOUGHT: so.\n<bash>{line}</bash>")


async def test_a_configuration_of_its_own_is_followed_but_for_where_it_runs(
    target: HarnessTarget, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(TEXT)
    async with harness_fixture(target) as fixture:
        turns = [text('echo "$WORD" in "$PWD"; exit 3')], [message_item("no action")], [text("sleep 30")]
        ran, harness = await run(fixture, *turns, config=str(tmp_path / "mine.yaml"))
    first, *_, last = ran.requests
    said = [item["content"] for item in last["input"] if item.get("role") == "user"]
    assert first["input"][0]["content"] == "On Linux 6.1.0 in /testbed."
    assert said[0].startswith("Do this: add(1, 2)")
    assert said[1] == "3|from-the-file in /testbed\n|"
    assert "EXACTLY ONE action" in said[2]
    assert (ran.exit.ended, ran.exit.turns, ran.exit.detail) == ("turn_limit", 3, "LimitsExceeded")
    kept = json.loads(harness.artifacts["trajectory.traj.json"])
    assert "timed out after 2" in kept["messages"][-2]["content"]
    assert kept["trajectory_format"].startswith("mini-swe-agent-1")
    assert (kept["instance_id"], kept["info"]["exit_status"]) == ("calc-1", "LimitsExceeded")
    for hidden in ("192.0.2.1", "theirs", "127.0.0.1", "api_key"):
        assert hidden not in json.dumps(kept["info"])


@pytest.mark.parametrize("dialect", ["chat", "responses", "text"])
async def test_its_oracle_makes_the_fix_in_every_dialect(target: HarnessTarget, dialect: str) -> None:
    config = "mini_textbased.yaml" if dialect == "text" else "mini.yaml"
    async with harness_fixture(target) as fixture:
        sandbox = await fixture.sandbox()
        harness: Any = target.make(dialect=dialect, config=config)
        ran = await fixture.run(*harness.oracle(FIX), harness=harness, sandbox=sandbox, limits=LONG, closing=None)
        assert (ran.exit.ended, ran.exit.detail) == ("finished", "Submitted")
        assert not ran.exit.malformed
        for path, after in FIXED.items():
            assert await sandbox.out(f"cat /testbed/{path}") == after.strip()
        assert ran.workspace.counts.commands == ran.exit.turns


async def test_what_a_policy_may_write_is_answered_and_a_refused_command_is_not_run(target: HarnessTarget) -> None:
    turns = [[bash(line)] for line in (["ls"], 5, "a\0b", "x" * 300_000, "echo \udc00", "pip install requests")]
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *turns)
    assert (ran.exit.ended, ran.exit.turns) == ("finished", len(turns) + 1)
    texts = [item["output"] for item in ran.requests[-1]["input"] if item.get("type") == "function_call_output"]
    assert len(texts) == len(turns)
    assert "Not run" in texts[-1]
    assert sum(ran.workspace.counts.refused.values()) == 1


async def test_it_gives_up_on_a_policy_that_calls_nothing(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *([message_item("Hm.")],) * 5)
        assert (ran.exit.ended, ran.exit.turns, ran.exit.detail) == ("finished", 3, "RepeatedFormatError")
        ran, _ = await run(fixture, *(ScriptedReply([message_item("Hm")], cut=True),) * 5)
        assert ran.exit.ended == "output_limit"


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("agent: {step_limit: many}\n", "step_limit"),
        ("agent: {instance_template: '{{nobody_knows}}'}\n", "nobody_knows"),
        ("agent: {instance_template: '{% if %}'}\n", "TemplateSyntaxError"),
        ("environment: {timeout: soon}\n", "timeout"),
    ],
)
async def test_what_it_refuses_itself_is_told_with_the_files_name(
    target: HarnessTarget, tmp_path: Path, block: str, words: str
) -> None:
    (tmp_path / "mine.yaml").write_text(block)
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, config=["mini.yaml", str(tmp_path / "mine.yaml")])
    assert isinstance(ran.error, ConfigError)
    assert "mine.yaml" in str(ran.error)
    assert words in str(ran.error)


async def test_a_name_that_it_does_not_know_is_told(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, config="no_such_name")
    assert isinstance(ran.error, ConfigError), ran.error
    assert not isinstance(ran.error, InfraError)
    assert "no_such_name.yaml" in str(ran.error)
