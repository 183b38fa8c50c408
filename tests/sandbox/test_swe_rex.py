"""The example of a provider that delegates: commands, files, shells and patches over a real SWE-ReX server."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.remote import RemoteDeployment

from paddock.errors import ConfigError
from paddock.examples.swe_rex import SweRexProvider
from paddock.ports import free_port
from paddock.sandbox import (
    ExecRequest,
    ExecResult,
    Provider,
    SandboxGone,
    SandboxRequestError,
    SandboxSettings,
    SandboxSpec,
    ShellRequest,
    open_provider,
)
from paddock.sandbox.runtime_choice import open_local_provider

TOKEN = "of-the-place"


class PlaceProvider(SweRexProvider):
    """Its sandboxes are one SWE-ReX server on loopback, without any isolation."""

    port = 0

    def deployment(self, spec: SandboxSpec) -> AbstractDeployment:
        return RemoteDeployment(host="http://127.0.0.1", port=self.port, auth_token=TOKEN)


@pytest.fixture(scope="module")
def place() -> Iterator[None]:
    PlaceProvider.port = free_port()
    words = ["--host", "127.0.0.1", "--port", str(PlaceProvider.port), "--auth-token", TOKEN]
    with subprocess.Popen([sys.executable, "-m", "swerex.server", *words], stderr=subprocess.DEVNULL) as server:
        request = urllib.request.Request(f"http://127.0.0.1:{PlaceProvider.port}/", headers={"X-API-Key": TOKEN})
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(request, timeout=5)
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield
        server.terminate()


@pytest.fixture
async def provider(place: None, tmp_path: Path) -> AsyncIterator[Provider]:
    provider = await open_provider(SandboxSettings(provider=f"{__name__}:PlaceProvider"))
    yield provider
    await provider.close()


@pytest.fixture
async def sandbox(provider: Provider, tmp_path: Path) -> str:
    spec = SandboxSpec(image="this machine", workdir=str(tmp_path), env={"COLOUR": "blue", "PATH": os.environ["PATH"]})
    return (await provider.create(spec, request_id="the same")).sandbox_id


async def run(provider: Provider, sandbox: str, script: str, **request: Any) -> ExecResult:
    words = ExecRequest(argv=["sh", "-c", script], **request)
    return await provider.exec(sandbox, words, request_id=f"{script}{request}")


@pytest.mark.slow
async def test_a_command_has_its_folder_environment_input_and_exit_code(
    provider: Provider, sandbox: str, tmp_path: Path
) -> None:
    result = await run(provider, sandbox, "pwd; echo $COLOUR; cat; echo bad >&2; exit 3", stdin=b"given\n")
    assert (result.exit_code, bytes(result.stdout)) == (3, f"{tmp_path}\nblue\ngiven\n".encode())
    assert bytes(result.stderr) == b"bad\n"
    capped = await run(provider, sandbox, "seq 1000", head_bytes=4, tail_bytes=5)
    assert (capped.stdout.head, capped.stdout.tail, capped.stdout.dropped_bytes) == (b"1\n2\n", b"1000\n", 3893 - 9)


async def test_a_repeated_request_acts_once(provider: Provider, sandbox: str) -> None:
    for _ in range(2):
        await run(provider, sandbox, "echo x >> runs")
    assert bytes((await run(provider, sandbox, "cat runs")).stdout) == b"x\n"


async def test_a_time_limit_ends_what_a_command_started(provider: Provider, sandbox: str) -> None:
    result = await run(provider, sandbox, "sleep 50 & echo $! > child; sleep 50", timeout_s=0.5)
    assert (result.exit_code, result.killed_by) == (137, "timeout")
    child = await provider.read(sandbox, f"{provider.live()[0].spec.workdir}/child")
    assert not psutil.pid_exists(int(child)) or psutil.Process(int(child)).status() == psutil.STATUS_ZOMBIE


async def test_files_are_carried_byte_by_byte(provider: Provider, sandbox: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    await provider.write(sandbox, f"{tmp_path}/deep/er/file", data, mode=0o640)
    assert (tmp_path / "deep/er/file").stat().st_mode & 0o777 == 0o640
    assert await provider.read(sandbox, f"{tmp_path}/deep/er/file") == data
    assert await provider.read(sandbox, f"{tmp_path}/deep/er/file", max_bytes=3) == b"\0\1\2"
    with pytest.raises(FileNotFoundError):
        await provider.read(sandbox, f"{tmp_path}/none")
    with pytest.raises(IsADirectoryError):
        await provider.write(sandbox, f"{tmp_path}/deep", b"")


@pytest.mark.slow
async def test_a_shell_keeps_its_folder_and_a_long_line_is_waited_for(
    provider: Provider, sandbox: str, tmp_path: Path
) -> None:
    shell = await provider.open_shell(sandbox, ShellRequest())
    (tmp_path / "sub").mkdir()
    assert (await provider.shell_run(sandbox, shell, "cd sub")).exit_code == 0
    result = await provider.shell_run(sandbox, shell, "sleep 1; pwd; (exit 4)", wait_s=0.1)
    assert result.running
    result = await provider.shell_poll(sandbox, shell, wait_s=20)
    assert (result.exit_code, bytes(result.output).decode().split()) == (4, [f"{tmp_path}/sub"])


async def test_a_patch_has_what_changed_and_not_what_is_excluded(
    provider: Provider, sandbox: str, tmp_path: Path
) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -qm base"
    await run(provider, sandbox, f"git init -q && echo old > file && git add file && {commit}")
    await run(provider, sandbox, "echo new > file; printf 'a\\000b' > binary; echo x > skip.log")
    patch = (await provider.patch(sandbox, str(tmp_path), exclude=["*.log"])).data
    assert b"-old\n+new\n" in patch
    assert b"GIT binary patch" in patch
    assert b"skip.log" not in patch
    assert bytes((await run(provider, sandbox, "git status --short")).stdout).split() == [
        b"M", b"file", b"??", b"binary", b"??", b"skip.log"
    ]  # fmt: skip


async def test_a_change_within_the_second_of_the_commit_is_in_the_patch(
    provider: Provider, sandbox: str, tmp_path: Path
) -> None:
    second = "touch -d '2020-01-01 00:00:00 UTC'"
    commit = "git -c user.name=a -c user.email=a@b commit -qm base"
    made = f"git init -q && git config core.trustctime false && echo old > file && {second} file && git add file"
    await run(provider, sandbox, f"{made} && {commit} && {second} .git/index")
    await run(provider, sandbox, f"echo new > file; {second} file")
    assert b"-old\n+new\n" in (await provider.patch(sandbox, str(tmp_path))).data


async def test_what_the_place_lacks_is_refused_and_what_is_gone_is_gone(provider: Provider, sandbox: str) -> None:
    with pytest.raises(SandboxRequestError, match="no way to open a port"):
        await provider.tunnel(sandbox, port=80)
    await provider.destroy(sandbox)
    await provider.destroy(sandbox)
    with pytest.raises(SandboxGone):
        await run(provider, sandbox, "true")
    assert provider.live() == []


async def test_a_class_that_is_no_provider_and_grading_elsewhere_are_refused() -> None:
    with pytest.raises(ConfigError, match="no class of sandboxes"):
        await open_provider(SandboxSettings(provider="pathlib:Path"))
    with pytest.raises(ConfigError, match="needs the images and sandboxes of this machine"):
        await open_local_provider(SandboxSettings(provider=f"{__name__}:PlaceProvider"))
