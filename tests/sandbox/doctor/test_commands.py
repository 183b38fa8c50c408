"""`paddock doctor` and `paddock sandbox`, as typed."""

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from paddock.cli import main
from paddock.sandbox import SandboxSettings, SandboxSpec
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES, Bubblewrap

pytestmark = pytest.mark.sandbox
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap: apt-get install bubblewrap")


@needs_bubblewrap
def test_doctor_tries_every_runtime_in_time_and_leaves_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    assert main(["doctor", "--home", str(home), "--json"]) == 0
    assert time.monotonic() - started < 10
    report = json.loads(capsys.readouterr().out)
    assert [trial["runtime"] for trial in report["trials"]] == [make.name for make in RUNTIMES]
    for trial in report["trials"]:
        assert trial["missing"] or not [check for check in trial["checks"] if check["wrong"]]
    names = {fact["name"] for fact in report["facts"]}
    assert {"user namespaces", "payload's user", "cgroups", "disk", "apt-get"} <= names
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
    assert said.count(f"{sandbox_id}  bubblewrap  {image}  row=7") == 2
    assert said.count("1-dead  dead") == 1
    assert "1-dead  sandbox deadbox" in said
    assert not dead.exists()
