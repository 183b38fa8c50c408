"""Claims about the store of programs: whole or not there, installed once, and every refusal names the way out."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.support.processes import gone
from tests.support.programs import environ_with, installs, make_npm, make_python, program

from paddock.errors import ConfigError, InfraError
from paddock.harness import Program
from paddock.harness.programs.catalogue import program_of
from paddock.harness.programs.store import ProgramStore
from paddock.sandbox.settings import HOME_VARIABLE

WAIT_S = 60.0
SOURCES = pytest.mark.parametrize("source", ["npm", "pip"])


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """npm and Python 3.12 of the test."""
    place = tmp_path / "tools"
    make_npm(place)
    make_python(place)
    return place


@pytest.fixture
def store(tmp_path: Path, tools: Path) -> ProgramStore:
    return ProgramStore(tmp_path / "home", environ=environ_with(tools))


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def left_in(store: ProgramStore) -> list[str]:
    """What lies in the store but locks."""
    making = store.root / ".making"
    return sorted(path.name for place in (store.root, making) for path in place.glob("[!.]*"))


@SOURCES
def test_what_is_installed_is_found_and_runs(store: ProgramStore, source: str) -> None:
    wanted = program("npm" if source == "npm" else "pip")
    made = store.install(wanted)
    assert (made.name, made.version, made.packages) == ("fake", "1.0.0", wanted.pinned_packages)
    assert store.find(wanted) == made
    assert store.installed() == [made]
    assert made.folder == store.home / "programs" / "fake-1.0.0"
    assert made.commands == {"say": made.folder / "bin" / "say"}
    assert subprocess.check_output([made.commands["say"]], text=True).startswith("say")
    assert left_in(store) == ["fake-1.0.0"]


def test_versions_stand_side_by_side_until_they_are_removed(store: ProgramStore) -> None:
    old, new = program(version="1.0.0"), program(version="2.0.0")
    for one in (old, new):
        store.install(one)
    assert [one.version for one in store.installed()] == ["1.0.0", "2.0.0"]
    store.remove(old)
    assert [one.version for one in store.installed()] == ["2.0.0"]
    with pytest.raises(ConfigError, match=r"fake-1\.0\.0 is not in"):
        store.remove(old)


def test_another_user_can_run_it_and_change_nothing(store: ProgramStore, tools: Path) -> None:
    make_npm(tools, "chmod 777 node_modules; chmod 600 node_modules/say/bin/say; chmod u+x node_modules/say/bin/say")
    made = store.install(program())
    for path in (made.folder, *made.folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o444 == 0o444
        assert not mode & 0o022
        assert not path.is_dir() or mode & 0o111 == 0o111
    assert stat.S_IMODE(made.commands["say"].stat().st_mode) & 0o111 == 0o111
    assert not made.commands["say"].readlink().is_absolute()


def test_what_is_not_there_is_said_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "default"))
    pinned = program_of("codex_cli")

    def told(store: ProgramStore, wanted: Program) -> str:
        with pytest.raises(ConfigError) as caught:
            store.find(wanted)
        assert caught.value.kind == "program_missing"
        return str(caught.value)

    head = "harness codex_cli runs @openai/codex@{}, which is not installed: paddock harness install codex_cli"
    assert told(ProgramStore(), pinned) == head.format(pinned.version)
    other = program_of("codex_cli", "0.63.0")
    assert told(ProgramStore(), other) == head.format("0.63.0") + " --version 0.63.0"
    elsewhere = ProgramStore(tmp_path / "my home")
    assert told(elsewhere, pinned) == head.format(pinned.version) + f" --home '{tmp_path}/my home'"


@SOURCES
def test_two_at_once_install_once_and_nobody_sees_a_half(store: ProgramStore, tools: Path, source: str) -> None:
    wanted = program("npm" if source == "npm" else "pip")
    steps = f"touch {tools}/begun; while [ ! -e {tools}/go ]; do sleep 0.02; done"
    make_npm(tools, steps)
    make_python(tools, steps)
    said: list[str] = []
    threads = [threading.Thread(target=store.install, args=(wanted, said.append)) for _ in range(2)]
    for thread in threads:
        thread.start()
    until((tools / "begun").exists)
    until(lambda: any("waiting" in line for line in said))
    with pytest.raises(ConfigError, match="is not installed"):
        store.find(wanted)
    assert store.installed() == []
    (tools / "go").touch()
    for thread in threads:
        thread.join(WAIT_S)
    assert store.find(wanted).name == "fake"
    assert len(installs(tools)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("source", [pytest.param("npm", marks=pytest.mark.slow), "pip"])
def test_an_installer_killed_in_the_middle_leaves_nothing_that_counts(
    store: ProgramStore, tools: Path, source: str
) -> None:
    wanted = program("npm" if source == "npm" else "pip")
    hangs = f"echo $$ > {tools}/begun.new; mv {tools}/begun.new {tools}/begun; sleep 1000"
    make_npm(tools, hangs)
    make_python(tools, hangs)
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "from paddock.harness import Program\nfrom paddock.harness.programs.store import ProgramStore\n"
        "ProgramStore(Path(sys.argv[1])).install(Program.model_validate_json(sys.argv[2]))"
    )
    argv = [sys.executable, "-c", script, str(store.home), wanted.model_dump_json()]
    installer = subprocess.Popen(argv, env={**os.environ, **environ_with(tools)}, start_new_session=True)
    try:
        until((tools / "begun").exists)
        theirs = psutil.Process(int((tools / "begun").read_text()))
        keeper = theirs.parent()
        assert keeper is not None
        tree = [keeper, theirs, *theirs.children()]
    finally:
        installer.send_signal(signal.SIGKILL)
        installer.wait()
    with pytest.raises(ConfigError, match="is not installed"):
        store.find(wanted)
    assert left_in(store) == ["fake-1.0.0"]
    make_npm(tools)
    make_python(tools)
    # Whoever installs something else cleans up; whoever installs this waits for what is left of the dead one.
    store.install(program(version="2.0.0"))
    assert gone(tree, within_s=WAIT_S)
    store.install(program(version="3.0.0"))
    assert left_in(store) == ["fake-2.0.0", "fake-3.0.0"]
    assert store.install(wanted).version == "1.0.0"


def test_a_half_that_is_whole_but_for_its_record_is_made_again(store: ProgramStore, tools: Path) -> None:
    made = store.install(program())
    (made.folder / "program.json").write_text("{")
    with pytest.raises(ConfigError, match="is not installed"):
        store.find(program())
    assert store.install(program()).commands["say"].exists()
    assert len(installs(tools)) == 2


@pytest.mark.parametrize(
    ("command", "steps", "told"),
    [
        ("node_modules/say/bin/tell", ":", "none fits: there is node_modules/say/bin/say"),
        (
            "node_modules/*/bin/say",
            "cp -r node_modules/say node_modules/more",
            "node_modules/more/bin/say, node_modules/",
        ),
        ("lib/say", ":", "none fits: there is bin, node_modules"),
    ],
)
def test_a_layout_that_is_not_the_expected_one_is_shown(
    store: ProgramStore, tools: Path, command: str, steps: str, told: str
) -> None:
    make_npm(tools, steps)
    with pytest.raises(ConfigError) as caught:
        store.install(program(command=command))
    assert told in str(caught.value)
    assert caught.value.kind == "program_layout"
    assert left_in(store) == []


@SOURCES
def test_an_installer_that_fails_is_quoted_and_leaves_nothing(store: ProgramStore, tools: Path, source: str) -> None:
    make_npm(tools, "echo no such package >&2; exit 3")
    make_python(tools, "echo no such package >&2; exit 3")
    with pytest.raises(InfraError, match="no such package"):
        store.install(program("npm" if source == "npm" else "pip"))
    assert left_in(store) == []


def test_no_npm_or_one_too_old_is_said_with_what_to_do(store: ProgramStore, tools: Path, tmp_path: Path) -> None:
    make_npm(tools, version="8.19.4")
    with pytest.raises(ConfigError, match=r"npm 9 or newer, and .* is version 8: install Node\.js"):
        store.install(program())
    bare = ProgramStore(tmp_path / "bare", environ={"PATH": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"there is no npm on PATH: install Node\.js") as caught:
        bare.install(program())
    assert caught.value.kind == "npm_missing"
    assert left_in(bare) == left_in(store) == []


def test_no_python_of_that_version_is_said_with_what_to_do(tmp_path: Path) -> None:
    store = ProgramStore(tmp_path / "home", environ={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"needs Python 3\.12 .* pyenv install 3\.12"):
        store.install(program("pip"))
    assert left_in(store) == []


def test_a_python_of_pyenv_is_taken_where_the_command_does_not_run(store: ProgramStore, tools: Path) -> None:
    (tools / "python3.12").write_text("#!/bin/sh\nexit 127\n")
    make_python(tools / ".pyenv" / "versions" / "3.12.9" / "bin", name="python")
    assert store.install(program("pip")).version == "1.0.0"


def test_installers_get_the_users_settings_and_no_secret(tmp_path: Path, tools: Path) -> None:
    make_npm(tools, f"env > {tools}/env")
    settings = {"HTTPS_PROXY": "http://proxy", "npm_config_registry": "http://registry", "PIP_CERT": "/cert"}
    secrets = {"OPENAI_API_KEY": "sk-1", "PADDOCK_REGISTRY_HOST_PASSWORD": "secret"}
    ProgramStore(tmp_path / "home", environ=environ_with(tools, **settings, **secrets)).install(program())
    seen = dict(line.partition("=")[::2] for line in (tools / "env").read_text().splitlines())
    assert settings.items() <= seen.items()
    assert not secrets.keys() & seen.keys()


@pytest.mark.slow
def test_the_real_codex_comes_by_npm(tmp_path: Path) -> None:
    made = ProgramStore(tmp_path).install(program_of("codex_cli"))
    said = subprocess.check_output([made.commands["codex"], "--version"], text=True, env={"HOME": str(tmp_path)})
    assert said == f"codex-cli {made.version}\n"


@pytest.mark.long
def test_a_real_package_comes_by_pip(tmp_path: Path) -> None:
    wanted = Program(
        name="wheel",
        version="0.45.1",
        where="outside",
        source="pip",
        packages=("wheel=={version}",),
        commands={"wheel": "bin/wheel", "python": "bin/python"},
        licence="MIT",
    )
    made = ProgramStore(tmp_path).install(wanted)
    assert subprocess.check_output([made.commands["wheel"], "version"], text=True) == "wheel 0.45.1\n"
    assert sorted(made.sha256) == ["wheel"]
