"""Claims about a system that is no Linux, as far as one that is can show: see `tests/support/without_linux`.

Evaluations over endpoints, `show`, `compare`, `serve` and `view` need nothing that Linux alone has; what needs it says
so at once, and what to do.
"""

import asyncio
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.pages import ROOT

from paddock import limits
from paddock.testing import ScriptedUpstream

pytestmark = [pytest.mark.cli, pytest.mark.slow]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A command on such a system, in the test's folder."""

    def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        path = os.pathsep.join((str(ROOT / "tests" / "support" / "without_linux"), str(ROOT / "src")))
        command = [sys.executable, *words] if words[0] == "-c" else [sys.executable, "-m", "paddock", *words]
        own = {**os.environ, "PYTHONPATH": path, "PADDOCK_HOME": str(tmp_path / "home"), **environment}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=own, timeout=60)

    return run


def test_the_system_seems_to_be_another_one(run: Run) -> None:
    probe = """
import ctypes, os, select, sys
assert sys.platform == "darwin" and not hasattr(os, "sched_getaffinity") and not hasattr(select, "epoll")
for path in ("/proc/self/status", "/sys/fs/cgroup/x"):
    try:
        open(path)
    except FileNotFoundError:
        pass
    else:
        raise SystemExit(path)
"""
    done = run("-c", probe)
    assert done.returncode == 0, done.stderr


def test_known_answers_are_played_shown_and_compared(run: Run) -> None:
    for name in ("a", "b"):
        done = run("eval", "configs/demo.yaml", "--oracle", "--limit", "4", "--out", f"runs/{name}")
        assert done.returncode == 0, done.stderr
        assert "completed 4" in done.stdout
    assert "4 rollouts: 4 with a reward" in run("show", "runs/a").stdout
    assert "better on 0, worse on 0" in run("compare", "runs/a", "runs/b").stdout


async def test_a_model_at_an_endpoint_is_evaluated(run: Run) -> None:
    async with ScriptedUpstream() as upstream:
        named = {"OPENAI_BASE_URL": upstream.url, "OPENAI_API_KEY": "none", "OPENAI_MODEL": "any"}
        words = ("eval", "pivot", "configs/openai.yaml", "--limit", "2", "--out", "runs/a")
        done = await asyncio.to_thread(run, *words, **named)
    assert done.returncode == 0, done.stderr
    assert "completed 2" in done.stdout


@pytest.mark.parametrize("words", [("serve", "pivot"), ("view",)], ids=lambda words: words[0])
def test_servers_start(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = os.pathsep.join((str(ROOT / "tests" / "support" / "without_linux"), str(ROOT / "src")))
    command = [sys.executable, "-m", "paddock", *words]
    own = {**os.environ, "PYTHONPATH": path}
    (tmp_path / "runs").mkdir()
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=own) as running:
        assert running.stdout is not None
        assert "http://127.0.0.1:" in running.stdout.readline()
        running.terminate()


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "configs/swe_demo.yaml", "--agent", "gold", "--oracle", "--limit", "1"),
        ("eval", "resources_servers/math/configs/math.yaml", "--oracle", "--limit", "1"),
        ("eval", "configs/demo.yaml", "--oracle", "--limit", "2", "--workers", "2"),
        ("eval", "configs/demo.yaml", "--oracle", "--limit", "2", "--isolate"),
        ("doctor",),
        ("check", "harness:codeact"),
    ],
    ids=" ".join,
)
def test_what_needs_linux_says_so_and_what_to_do(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert re.search("Linux, and this is macOS: .*run this on a Linux machine", done.stderr)


def test_a_system_that_refuses_a_million_open_files_gives_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    granted: list[int] = []

    def refuse(_which: int, bounds: tuple[int, int]) -> None:
        if bounds[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        granted.append(bounds[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert limits.raise_open_files() == 10_240
    assert granted == [10_240]
