"""Programs of harnesses, as every runtime shows them inside."""

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.sandbox import ExecResult, SandboxRequestError, SandboxSpec
from paddock.sandbox.local import LocalProvider

Sh = Callable[..., Awaitable[ExecResult]]
pytestmark = pytest.mark.sandbox


@pytest.fixture
async def with_programs(provider: LocalProvider, image: str) -> str:
    for name in ("one-1.0", "two-2.0"):
        command = provider.settings.programs / name / "bin" / "say"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f"#!/bin/sh\necho {name}\n")
        command.chmod(0o755)
    spec = SandboxSpec(image=image, programs=["one-1.0", "two-2.0"])
    return (await provider.create(spec, request_id=uuid.uuid4().hex)).sandbox_id


async def test_programs_run_from_their_place(sh: Sh, with_programs: str) -> None:
    result = await sh("/opt/paddock/one-1.0/bin/say; /opt/paddock/two-2.0/bin/say", sandbox_id=with_programs)
    assert bytes(result.stdout) == b"one-1.0\ntwo-2.0\n"


async def test_nothing_can_be_written_to_them(sh: Sh, with_programs: str, provider: LocalProvider) -> None:
    script = """
    cd /opt/paddock/one-1.0
    for line in 'echo x > bin/say' 'rm bin/say' 'mkdir new' 'chmod 777 bin' 'mount -o remount,rw .' 'umount .'; do
        (eval "$line") 2>/dev/null && echo "$line"
    done
    true
    """
    assert bytes((await sh(script, sandbox_id=with_programs)).stdout) == b""
    assert (provider.settings.programs / "one-1.0" / "bin" / "say").read_text() == "#!/bin/sh\necho one-1.0\n"


async def test_they_tell_nothing_of_the_host(sh: Sh, with_programs: str, home: Path) -> None:
    result = await sh("cat /proc/self/mountinfo; ls -la /opt/paddock", sandbox_id=with_programs)
    assert b"/opt/paddock/one-1.0 ro,nosuid,nodev" in bytes(result.stdout)
    assert str(home).encode() not in bytes(result.stdout)
    assert home.name.encode() not in bytes(result.stdout)


async def test_one_that_is_not_there_is_named(provider: LocalProvider, image: str) -> None:
    spec = SandboxSpec(image=image, programs=["three-3.0"])
    with pytest.raises(SandboxRequestError, match=r"three-3\.0: there is no such program: paddock harness"):
        await provider.create(spec, request_id=uuid.uuid4().hex)
    assert provider.live() == []


@pytest.mark.parametrize("name", ["..", "../state", "a/b", "", "one-1.0\n", ".empty"])
def test_a_name_that_leads_elsewhere_is_none(name: str) -> None:
    with pytest.raises(ValidationError):
        SandboxSpec(image="any", programs=[name])
