"""Claims about its own configuration files, and about commands that make a known fix: without the program."""

import base64
import re
import subprocess
from pathlib import Path

import orjson
import pytest

from paddock.errors import ConfigError
from paddock.harness import RunLimits, Task, make_harness
from paddock.harnesses.mini_swe_agent.harness import MiniSweAgentHarness, MiniSweAgentSettings
from paddock.harnesses.mini_swe_agent.oracle import SUBMIT, turns_of
from paddock.harnesses.mini_swe_agent.program_config import ACTION_REGEX
from paddock.types import Fix, JsonObject
from paddock.types.responses import calls, messages

BEFORE = {"a.md": "```sh\none\n```\n", "b.txt": "x\r\ny\n"}
AFTER = {"a.md": "```sh\ntwo\n```\n", "b.txt": "x\r\nz\n"}


def harness(**settings: object) -> MiniSweAgentHarness:
    return MiniSweAgentHarness(MiniSweAgentSettings.model_validate(settings))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    for name, text in BEFORE.items():
        (folder / name).write_bytes(text.encode())
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "."], check=True)
    return folder


@pytest.fixture
def fix(repository: Path) -> Fix:
    for name, text in AFTER.items():
        (repository / name).write_bytes(text.encode())
    diff = subprocess.run(["git", "-C", repository, "diff"], check=True, capture_output=True).stdout
    for name, text in BEFORE.items():
        (repository / name).write_bytes(text.encode())
    return Fix(patch=diff, workdir="/testbed", files=BEFORE, test_command="true")


def played(turns: list[list[JsonObject]], regex: str | None, folder: Path) -> list[str]:
    """Run what the program would find in the turns."""
    lines = []
    for turn in turns:
        if regex is None:
            (call,) = calls(turn)
            lines.append(str(orjson.loads(call.arguments)["command"]))
        else:
            (line,) = re.findall(regex, messages(turn)[0], re.DOTALL)
            lines.append(line.strip())
    for line in lines:
        subprocess.run(["bash", "-c", line], cwd=folder, check=True, capture_output=True)
    return lines


@pytest.mark.parametrize("regex", [None, ACTION_REGEX, r"```bash\s*\n(.*?)\n```", r"<bash>(.*?)</bash>"])
def test_commands_make_the_fix_in_every_form(fix: Fix, repository: Path, regex: str | None) -> None:
    lines = played(turns_of(fix, action_regex=regex), regex, repository)
    assert {name: (repository / name).read_bytes().decode() for name in AFTER} == AFTER
    assert lines[-2:] == ["true", SUBMIT]


def test_a_long_fix_is_made_file_by_file(fix: Fix, repository: Path) -> None:
    (repository / "new.txt").write_text("")
    long = "".join(f"+{base64.b64encode(bytes([line % 256] * 60)).decode()}\n" for line in range(1000))
    patch = f"diff --git a/c b/c\nnew file mode 100644\n--- /dev/null\n+++ b/c\n@@ -0,0 +1,1000 @@\n{long}"
    lines = played(
        turns_of(fix.model_copy(update={"patch": fix.patch + patch.encode()}), action_regex=None), None, repository
    )
    assert len([line for line in lines if line.startswith("git apply")]) == 3
    assert (repository / "a.md").read_text() == AFTER["a.md"]
    assert (repository / "c").read_text().count("\n") == 1000


def test_an_expression_of_no_known_form_is_said_so(fix: Fix) -> None:
    with pytest.raises(ValueError, match="no known way to write an action"):
        turns_of(fix, action_regex=r"RUN:(.*?);;")


@pytest.mark.parametrize(
    ("settings", "by_text"),
    [
        ({}, False),
        ({"dialect": "text"}, True),
        ({"config": "swebench_xml"}, True),
        ({"config": ["mini.yaml", r"model.action_regex=<bash>(.*?)</bash>"]}, True),
        ({"config": "swebench_xml.yaml", "dialect": "responses"}, False),
    ],
)
def test_the_oracle_speaks_as_the_configuration_asks(fix: Fix, settings: JsonObject, by_text: bool) -> None:
    turns = harness(**settings).oracle(fix)
    assert [bool(calls(turn)) for turn in turns] == [not by_text] * len(turns)


def test_files_are_read_here_and_its_own_names_are_left_to_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("agent:\n  step_limit: 3\nmodel:\nenvironment: {timeout: 7}\n")
    start = harness(config=["swebench", str(mine), "agent.step_limit=4"]).start(
        Task(prompt="Fix.", visible={"instance_id": "a-1"}), "/testbed", RunLimits(tool_s=9.0)
    )
    assert start.parameters["layers"] == [
        {"name": "swebench.yaml", "blocks": None},
        {"name": str(mine), "blocks": {"agent": {"step_limit": 3}, "environment": {"timeout": 7}}},
        {"name": "agent.step_limit=4", "blocks": None},
    ]
    assert (start.parameters["prompt"], start.parameters["workdir"], start.parameters["tool_s"]) == (
        "Fix.",
        "/testbed",
        9.0,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: {}\n", "no block `agents`.*agent"),
        ("- a\n", "needs blocks"),
        ("agent: 3\n", "needs blocks"),
        ("a: [\n", "no YAML"),
        ("run: {env_startup_command: make}\n", "env_startup_command"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"mine\.yaml.*{words}"):
        make_harness("mini_swe_agent", {"config": str(tmp_path / "mine.yaml")})


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"nowhere/mine\.yaml"):
        harness(config="nowhere/mine.yaml")
