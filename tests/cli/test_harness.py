"""Claims about `paddock harness`: what it says, and its exit codes."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.programs import environ_with, installs, make_npm

from paddock.cli import main
from paddock.sandbox.settings import HOME_VARIABLE

PLUGIN = """
from pydantic import BaseModel
from tests.support.programs import program

class Settings(BaseModel, extra="forbid"):
    version: str = "1.0.0"

class Fake:
    KIND = "harnesses"
    config_type = Settings
    def __init__(self, settings):
        self.program = program(version=settings.version, name="fake")
    program = None
"""
FAKE = "my_fake_harness:Fake"


class HarnessOutput(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., HarnessOutput]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    make_npm(tmp_path / "tools")
    return tmp_path / "tools"


@pytest.fixture
def harness(tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run `paddock harness ...` in a home of its own, beside a harness of the user's."""
    (tmp_path / "my_fake_harness.py").write_text(PLUGIN)
    for name, value in environ_with(tools, **{HOME_VARIABLE: str(tmp_path / "home")}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def run(*arguments: str) -> HarnessOutput:
        capfd.readouterr()
        try:
            code = main(["harness", *arguments])
        except SystemExit as exit:
            code = int(exit.code or 0)
        return HarnessOutput(code, *capfd.readouterr())

    return run


def test_the_licence_is_said_before_anything_is_installed(harness: Command, tmp_path: Path) -> None:
    said = harness("install", FAKE)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "fake 1.0.0: say@1.0.0; licence: MIT"
    unlocked = "npm installs say@1.0.0 (there is no lock for this version here: what comes is not checked)"
    assert lines[1:] == [unlocked, f"fake 1.0.0: 0 MiB in {tmp_path}/home/programs/fake-1.0.0"]


def test_list_has_every_program_with_its_licence_and_what_is_installed(harness: Command) -> None:
    harness("install", FAKE)
    harness("install", FAKE, "--version", "2.0.0")
    said = harness("list")
    rows = {line.split()[0]: line.split() for line in said.out.splitlines()}
    assert rows["codex_cli"][2:] == ["-", "Apache-2.0"]
    assert rows["fake"][2:] == ["1.0.0", "(0", "MiB),", "2.0.0", "(0", "MiB)", "-"]
    assert "codex" not in rows


def test_what_has_to_be_installed_and_is_not_is_wrong(harness: Command) -> None:
    told = "codex_cli 0.169.0: not installed: paddock harness install codex_cli\n"
    assert harness("doctor", "codex_cli") == (1, told, "")
    assert told in harness("doctor").out


def test_doctor_says_how_to_mend_what_is_wrong_and_that_mends_it(harness: Command, tmp_path: Path) -> None:
    harness("install", FAKE)
    assert harness("doctor", FAKE) == (0, "fake 1.0.0: fine\n", "")
    (tmp_path / "home/programs/fake-1.0.0/node_modules/say/bin/say").write_text("#!/bin/sh\n")
    said = harness("doctor", FAKE)
    assert said.code == 1
    problem, mend = said.out.splitlines()
    assert "bin/say: not the file that was installed" in problem
    head, _, commands = mend.partition("mend it with: ")
    assert head == "fake 1.0.0: "
    for line in commands.split(" && "):
        # The store knows a harness of its user's by its name alone.
        _, _, *words = shlex.split(line)
        assert harness(*(FAKE if word == "fake" else word for word in words)).code == 0
    assert harness("doctor", FAKE).code == 0


def test_one_that_fails_is_named_and_the_others_are_installed(harness: Command, tools: Path) -> None:
    make_npm(tools, "if grep -q @openai package.json 2>/dev/null; then echo 404 >&2; exit 1; fi")
    said = harness("install", "codex_cli", FAKE)
    assert said.code == 1
    assert "codex_cli 0.169.0: npm ci @openai/codex@0.169.0 failed:\n404" in said.err
    assert "fake 1.0.0: 0 MiB in" in said.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["install", "codex"], "harness codex is our own code, nothing to install; nearest: `codex_cli`"),
        (["install", "codex_clip"], "nearest: `codex_cli`"),
        (["install", "codex_cli", FAKE, "--version", "1"], "--version is for one harness"),
        (["install", FAKE, "--version", "../1"], "harness my_fake_harness:Fake: version: String should match"),
        (["remove", FAKE], "fake-1.0.0 is not in "),
        (["doctor", "null"], "harness null is our own code"),
    ],
)
def test_a_mistake_is_said_before_anything_happens(harness: Command, tools: Path, words: list[str], told: str) -> None:
    said = harness(*words)
    assert said.code == 2
    assert told in said.err
    assert installs(tools) == []


def test_without_npm_the_command_says_what_to_install(harness: Command, tools: Path) -> None:
    make_npm(tools, version="6.14.0")
    said = harness("install", FAKE)
    assert said.code == 2
    assert "version 6: install Node.js 20 or newer" in said.err


def test_what_is_removed_is_gone(harness: Command) -> None:
    harness("install", FAKE, "--version", "2.0.0")
    assert harness("remove", FAKE, "--version", "2.0.0") == (0, "", "")
    assert "fake" not in harness("list").out
