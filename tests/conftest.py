"""For every test: commands that tests start can be interrupted; a docker daemon or a vLLM for those that ask for it."""

import gc
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from paddock.sandbox.runtimes import Docker
from paddock.sandbox.settings import HOME_VARIABLE

if TYPE_CHECKING:
    from tests.support.real_vllm import RealVllm

VLLM_VARIABLE = "PADDOCK_VLLM_PYTHON"
VLLM_TIMEOUT_S = 900
TIMEOUTS_S = {"long": 1800, "slow": 900}
"""By mark, where a test names none of its own: a machine may be busy with other things too."""

# Examples have no deadline: what takes a moment alone takes a second beside others. They are new ones in each run: half
# of hypothesis' own number, where a test has none of its own.
settings.register_profile("tests", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# A shell gives what it starts in the background an ignored SIGINT, nohup an ignored SIGHUP, and children inherit both;
# not a handler of ours.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed-to", type=Path, metavar="FILE", help="add the names of tests that pass to this file")
    parser.addoption("--without-passed", type=Path, metavar="FILE", help="leave out the tests that this file names")


def pytest_configure(config: pytest.Config) -> None:
    passed_to: Path | None = config.getoption("--passed-to")
    if passed_to and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(passed_to))


class _Passed:
    """Writes what passed, for `--without-passed`: unlike what was skipped, it is the same where parameters are what a
    machine has. One in a worker of xdist would write each name twice."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            with self._file.open("a") as file:
                file.write(f"{report.nodeid}\n")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules that cannot have what `-m 'slow and ...'` asks for are not imported: most of a collection's time."""
    asked = re.match(r"(slow|vllm) and ", config.option.markexpr)
    if asked and collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        return None if _may_have(collection_path, asked[1]) else True
    return None


def _may_have(module: Path, mark: str) -> bool:
    """Whether tests of a module can have a mark: it or its folder's conftest names it, or something that gives it."""
    texts = [file.read_text() for file in (module, module.with_name("conftest.py")) if file.exists()]
    return any(mark in text or "tests.sampling" in text for text in texts)


def _refuse_unnamed_marks(items: list[pytest.Item]) -> None:
    """For `pytest_ignore_collect`, which would lose them; seen wherever all is collected."""
    for mark in ("slow", "vllm"):
        for module in {item.path for item in items if item.get_closest_marker(mark)}:
            if not _may_have(module, mark):
                raise pytest.UsageError(f"{module}: tests have the mark `{mark}`, and no word there says so")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _refuse_unnamed_marks(items)
    without: Path | None = config.getoption("--without-passed")
    passed = set(without.read_text().splitlines()) if without else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]
    # Whichever test needs vLLM first waits until a model is made and has been loaded.
    for item in items:
        own = item.get_closest_marker("timeout")
        if item.get_closest_marker("vllm") and (own is None or own.args[0] < VLLM_TIMEOUT_S):
            item.add_marker(pytest.mark.timeout(VLLM_TIMEOUT_S), append=False)
        elif not item.get_closest_marker("timeout"):
            limits_s = [limit_s for mark, limit_s in TIMEOUTS_S.items() if item.get_closest_marker(mark)]
            for limit_s in limits_s[:1]:
                item.add_marker(pytest.mark.timeout(limit_s))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """It makes millions of objects, which all stay: nothing to look through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def token_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where servers leave tokens for clients, empty; none is in the environment."""
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[None]:
    """Ours where none answers."""
    if os.geteuid() != 0 or not shutil.which("dockerd") or Docker().missing() is None:
        yield
        return
    place = Path(tempfile.mkdtemp(prefix="dockerd-", dir="/var/tmp"))
    socket = f"unix://{place}/socket"
    words: list[str | Path] = ["dockerd", "-H", socket, "--data-root", place / "data", "--exec-root", place / "exec"]
    words += ["--pidfile", place / "pid", "--storage-driver", "overlay2", "--iptables=false", "--ip6tables=false"]
    words += ["--bridge=none", "--ip-forward=false", "--ip-masq=false", "--exec-opt", "native.cgroupdriver=cgroupfs"]
    with (place / "log").open("wb") as log, pytest.MonkeyPatch.context() as patch:
        daemon = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        patch.setenv("DOCKER_HOST", socket)
        deadline = time.monotonic() + 60
        while Docker().missing() and daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        yield
        daemon.terminate()
        daemon.wait(60)
    subprocess.run(["umount", place / "data"], capture_output=True, check=False)
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """Interpreter of an environment with vLLM."""
    python = os.environ.get(VLLM_VARIABLE)
    if not python:
        pytest.skip(f"{VLLM_VARIABLE} names no interpreter: scripts/setup_vllm.sh makes one")
    return python


@pytest.fixture(scope="session")
def real_vllm(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator["RealVllm"]:
    """One for all tests of a process."""
    with _vllm(vllm_python, tmp_path_factory, "codex") as found:
        yield found


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("codex", "opencode")]


@pytest.fixture(scope="module", params=["codeact", *LONG])
def harness_vllm(
    request: pytest.FixtureRequest, vllm_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["RealVllm"]:
    """One for each native harness, whose model knows its tools."""
    with _vllm(vllm_python, tmp_path_factory, request.param) as found:
        yield found


@contextmanager
def _vllm(python: str, folders: pytest.TempPathFactory, harness: str) -> Iterator["RealVllm"]:
    from tests.support.real_vllm import real_vllm, tiny_model

    home = Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")
    model = tiny_model(home, python, Path(__file__).resolve().parents[1], harness=harness)
    with real_vllm(folders.mktemp("vllm"), python=python, model=model, harness=harness) as found:
        yield found
