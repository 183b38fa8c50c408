"""`paddock doctor` and `paddock sandbox`, as typed."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import pytest

import paddock
from paddock.cli import main
from paddock.sandbox import SandboxSettings, SandboxSpec
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES, Bubblewrap

pytestmark = pytest.mark.sandbox
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap: apt-get install bubblewrap")


@pytest.mark.slow
@needs_bubblewrap
def test_doctor_tries_every_runtime_in_time_and_leaves_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    assert main(["doctor", "--home", str(home), "--json"]) == 0
    assert time.monotonic() - started < 60
    report = json.loads(capsys.readouterr().out)
    assert [trial["runtime"] for trial in report["trials"]] == [make.name for make in RUNTIMES]
    for trial in report["trials"]:
        assert trial["missing"] or not [check for check in trial["checks"] if check["wrong"]]
    names = {fact["name"] for fact in report["facts"]}
    assert {"user namespaces", "payload's user", "system calls", "cgroups", "disk", "apt-get"} <= names
    assert list((probe_settings(SandboxSettings(home=home)).home / "state").iterdir()) == []


def test_doctor_says_what_to_install_and_fails_where_nothing_works(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_image(ImageStore(home / "probe", payload_id=SandboxSettings().payload_id))
    monkeypatch.setenv("PATH", str(home))
    assert main(["doctor", "--home", str(home)]) == 1
    said = capsys.readouterr().out
    assert "apt-get install bubblewrap" in said
    assert "apt-get install podman runc" in said


@needs_bubblewrap
def test_sandboxes_are_listed_and_only_those_of_dead_owners_cleaned(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = home / "state/1-dead"
    settings = SandboxSettings(home=home)
    image = tiny_image(ImageStore(home, payload_id=settings.payload_id))

    async def use() -> str:
        provider = LocalProvider(settings, Bubblewrap(), None)
        handle = await provider.create(SandboxSpec(image=image, labels={"row": "7"}), request_id="1")
        (dead / "deadbox/upper").mkdir(parents=True)
        (dead / "lock").touch()
        assert await asyncio.to_thread(main, ["sandbox", "list", "--home", str(home)]) == 0
        assert await asyncio.to_thread(main, ["sandbox", "clean", "--home", str(home)]) == 0
        assert await asyncio.to_thread(main, ["sandbox", "list", "--home", str(home)]) == 0
        await provider.close()
        return handle.sandbox_id

    sandbox_id = asyncio.run(use())
    said = capsys.readouterr().out
    assert said.count(f"{sandbox_id}  bubblewrap  agent  {image}  row=7") == 2
    assert said.count("1-dead  dead") == 1
    assert "1-dead  sandbox deadbox" in said
    assert not dead.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become somebody else")
@needs_bubblewrap
def test_an_ordinary_user_needs_no_rights_for_it() -> None:
    """By the system's Python: the one that runs may lie in a folder of root's."""
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    become = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"]
    place = Path(tempfile.mkdtemp(prefix="paddock-user-", dir="/var/tmp"))
    os.chown(place, 12345, 12345)
    paths = [str(Path(paddock.__file__).parent.parent), sysconfig.get_path("purelib")]
    env = {"PATH": os.defpath, "HOME": str(place), "PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    script = "import sys; from paddock.cli import main; sys.exit(main(sys.argv[1:]))"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        told = [*become, python, "-c", *words]
        return subprocess.run(told, env=env, cwd=place, capture_output=True, text=True, check=False, timeout=30)

    try:
        if not Path(python).exists() or run("import paddock.cli, pydantic_core").returncode:
            pytest.skip(f"another user can't run this package by {python}")
        done = run(script, "doctor", "--home", str(place / "home"), "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        trials = {trial["runtime"]: trial for trial in report["trials"]}
    finally:
        shutil.rmtree(place)
    facts = {fact["name"]: fact["value"] for fact in report["facts"]}
    assert facts["payload's user"].endswith("share its limits: only root can give each its own")
    assert "needs root" in trials["docker"]["missing"] or "on PATH" in trials["docker"]["missing"]
    for name in ("apptainer", "bubblewrap", "podman"):
        assert trials[name]["missing"] or not [check for check in trials[name]["checks"] if check["wrong"]]
