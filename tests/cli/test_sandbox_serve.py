"""`paddock sandbox serve`: a node as a process, its token, its end."""

import asyncio
import configparser
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli import main
from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.owner import owners, sandboxes


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    folder = Path(tempfile.mkdtemp(prefix="paddock-node-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.cli
@pytest.mark.sandbox
async def test_a_node_serves_until_a_signal(home: Path, token_cache: Path, tmp_path: Path) -> None:
    image = tiny_image(ImageStore(home, payload_id=SandboxSettings().payload_id))
    settings = tmp_path / "node.yaml"
    settings.write_text("runtime: bubblewrap\nstop_timeout_s: 5\n")
    command = [sys.executable, "-m", "paddock", "sandbox", "serve", "--home", str(home), "--settings", str(settings)]
    env = {**os.environ, "XDG_CACHE_HOME": str(token_cache)}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=env)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    provider = await open_provider(SandboxSettings(nodes=(url,)))
    handle = await provider.create(SandboxSpec(image=image), request_id="one")
    result = await provider.exec(handle.sandbox_id, ExecRequest(argv=["echo", "here"]), request_id="two")
    assert (handle.runtime, bytes(result.stdout)) == ("bubblewrap", b"here\n")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert not [folder for owner in owners(home) for folder in sandboxes(owner)]
    await provider.close()


def test_what_can_not_be_served_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    settings = tmp_path / "node.yaml"
    assert main(["sandbox", "serve", "--host", "0.0.0.0"]) == 2
    assert "needs a token" in capsys.readouterr().err
    settings.write_text("runtimes: bubblewrap\n")
    assert main(["sandbox", "serve", "--settings", str(settings)]) == 2
    assert "nearest: `runtime`" in capsys.readouterr().err
    settings.write_text("nodes: ['http://127.0.0.1:1']\n")
    assert main(["sandbox", "serve", "--settings", str(settings)]) == 2
    assert "its own machine's sandboxes" in capsys.readouterr().err
    assert main(["sandbox", "serve", "--settings", str(tmp_path / "none.yaml")]) == 2


def test_a_unit_serves_the_same_and_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PADDOCK_TOKEN", "of-the-environment")
    token, settings = tmp_path / "the token", tmp_path / "node 100%.yaml"
    token.write_text("of-the-file")
    settings.write_text("stop_timeout_s: 7\n")
    place = ["sandbox", "serve", "--systemd", "--host", "0.0.0.0", "--home", str(tmp_path)]
    assert main([*place, "--port", "8900", "--token-file", str(token), "--settings", str(settings)]) == 0
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # names of units have capitals
    text = capsys.readouterr().out
    unit.read_string(text)
    assert "of-the" not in text.replace(str(token), "")
    service = dict(unit["Service"])
    words = [word.replace("%%", "%") for word in shlex.split(service["ExecStart"])]
    assert words[1:] == [
        *["-m", "paddock", "sandbox", "serve", "--host", "0.0.0.0", "--port", "8900"],
        *["--settings", str(settings), "--token-file", "%d/token"],
    ]
    assert service["LoadCredential"] == f"token:{token}"
    if shutil.which("systemd-analyze"):
        file = tmp_path / "sandboxes.service"
        file.write_text(text)
        checked = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=True)
        assert checked.stdout + checked.stderr == ""
    assert (service["Environment"], service["TimeoutStopSec"]) == (f"PADDOCK_HOME={tmp_path}", "17")
    assert main([*place, "--token-file", str(token)]) == 2
    assert "--port" in capsys.readouterr().err
    assert main([*place, "--port", "8900"]) == 2
    assert "--token-file" in capsys.readouterr().err


def test_https_needs_both_files_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    for words, told in (
        (["--tls-cert", "x"], "give both"),
        (["--tls-cert", "x", "--tls-key", "y"], "--token-file"),
        (["--tls-cert", "x", "--tls-key", "y", "--token-file", str(tmp_path / "token")], "certificate x and key y"),
    ):
        (tmp_path / "token").write_text("a-token")
        assert main(["sandbox", "serve", *words]) == 2
        assert told in capsys.readouterr().err
