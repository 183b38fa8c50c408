"""What is particular to one runtime."""

import subprocess
import uuid
from pathlib import Path

import pytest

from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import Apptainer, Docker
from paddock.sandbox.runtimes.podman import RUNC

pytestmark = pytest.mark.sandbox


async def says_hello(provider: LocalProvider, image: str) -> bool:
    handle = await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)
    try:
        result = await provider.exec(handle.sandbox_id, ExecRequest(argv=["echo", "hello"]), request_id="1")
    finally:
        await provider.destroy(handle.sandbox_id)
    return bytes(result.stdout) == b"hello\n"


async def test_singularity_serves_where_it_is_all_there_is(
    home: Path, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Apptainer().find()
    if program is None:
        pytest.skip(f"{Apptainer().missing()}")
    (tmp_path / "singularity").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Apptainer().find() == str(tmp_path / "singularity")
    # Where the payload's user can pass.
    monkeypatch.setenv("PATH", str(Path(program).parent))
    provider = LocalProvider(SandboxSettings(home=home), Apptainer(), None)
    assert await says_hello(provider, image)
    await provider.close()


def test_podman_hands_runc_every_word_but_the_option_that_it_lacks(tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor word do printf "<%s>" "$word"; done\n')
    echo.chmod(0o755)
    script = tmp_path / "runc"
    script.write_text(RUNC.format(runc=echo))
    for words in (["--cgroup-manager", "disabled"], ["--cgroup-manager=disabled"]):
        told = ["sh", str(script), "--root", "a b", *words, "create", "--bundle", "*", "", "id"]
        said = subprocess.run(told, capture_output=True, text=True, check=True).stdout
        assert said == "<--root><a b><create><--bundle><*><><id>"


@pytest.mark.slow
async def test_docker_imports_a_stack_of_layers_once(home: Path, image: str, docker_daemon: None) -> None:
    if missing := Docker().missing():
        pytest.skip(missing)
    provider = LocalProvider(SandboxSettings(home=home), Docker(), None)

    def add_file(tree: Path) -> None:
        (tree / "added").write_text("x")

    provider.store.add("two-layers", add_file, base=image)

    def imported() -> set[str]:
        words = ["docker", "images", "--no-trunc", "--format", "{{.Tag}} {{.ID}}", "paddock/layers"]
        return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines())

    assert await says_hello(provider, image)
    before = imported()
    assert await says_hello(provider, image)
    assert imported() == before
    assert await says_hello(provider, "two-layers")
    assert len(imported() - before) == 1
    await provider.close()
