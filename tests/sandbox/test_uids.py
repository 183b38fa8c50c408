"""Each sandbox has a user of the host's to itself; what it leaves on the disk is the one stored user's."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.sandbox import ExecRequest, SandboxError, SandboxSettings, SandboxSpec, uids
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.records import Purpose
from paddock.sandbox.runtimes import Bubblewrap, Docker
from paddock.sandbox.settings import PAYLOAD_ID, UidRanges
from paddock.sandbox.uids import draw_uid, why_shared
from paddock.testing.sandboxes import sandbox_home

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives each sandbox a uid of its own")
OWNER = """
import asyncio, sys
from pathlib import Path
from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import Bubblewrap

async def main(home, image, uids, count):
    settings = SandboxSettings(home=Path(home), uids=eval(uids))
    provider = LocalProvider(settings, Bubblewrap(), None)
    for number in range(int(count)):
        handle = await provider.create(SandboxSpec(image=image), request_id=str(number))
        request = ExecRequest(argv=["cat", "/proc/self/uid_map"])
        print(bytes((await provider.exec(handle.sandbox_id, request, request_id="x")).stdout).split()[1].decode())
    print("all", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(*sys.argv[1:]))
"""
HOLD = """
import os, sys
from paddock.sandbox.settings import UidRanges
from paddock.sandbox.uids import draw_uid
with draw_uid(UidRanges(first=int(sys.argv[1]), agents=1, gradings=1), "agent") as uid:
    if os.fork():
        print(uid.number, flush=True)
    os.read(0, 1)
"""


def few(agents: int = 1, gradings: int = 1) -> UidRanges:
    """That no other test draws from."""
    return UidRanges(first=random.randrange(2_000_300_000, 2_099_000_000), agents=agents, gradings=gradings)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def image(home: Path) -> str:
    return tiny_image(ImageStore(home, payload_id=PAYLOAD_ID), rich=True)


@pytest.fixture
def ranges() -> UidRanges:
    return few(agents=3)


@pytest.fixture
async def provider(home: Path, ranges: UidRanges) -> AsyncIterator[LocalProvider]:
    runtime = Bubblewrap()
    if missing := runtime.missing():
        pytest.skip(missing)
    settings = SandboxSettings(home=home, uids=ranges)
    if why := why_shared(settings, Bubblewrap):
        pytest.skip(why)
    made = LocalProvider(settings, runtime, None)
    yield made
    await made.close()


async def create(provider: LocalProvider, image: str, purpose: Purpose = "agent") -> str:
    spec = SandboxSpec(image=image, purpose=purpose)
    return (await provider.create(spec, request_id=uuid.uuid4().hex)).sandbox_id


async def soon_created(provider: LocalProvider, image: str, purpose: Purpose = "agent") -> str:
    """Once what was killed a moment ago has ended."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await create(provider, image, purpose)
            except SandboxError as error:
                assert error.kind == "uids_used_up", error
            await asyncio.sleep(0.02)


async def out(provider: LocalProvider, sandbox: str, script: str) -> str:
    request = ExecRequest(argv=["sh", "-c", script], merge_stderr=True)
    result = await provider.exec(sandbox, request, request_id=uuid.uuid4().hex)
    assert result.ok, bytes(result.stdout)
    return bytes(result.stdout).decode().strip()


async def uid_of(provider: LocalProvider, sandbox: str) -> int:
    inside, outside, count = (await out(provider, sandbox, "cat /proc/self/uid_map")).split()
    assert (inside, count) == ("0", "1")
    assert (await out(provider, sandbox, "cat /proc/self/gid_map")).split() == [inside, outside, count]
    return int(outside)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"uids": {"first": 2**31 - 10}}, "give a range below 2147483648"),
        ({"uids": {"first": 65000}}, "without 65534"),
        ({"uids": {"first": 59000, "agents": 500, "gradings": 500}}, "payload_id, 59734, is one of them"),
        ({"uids": {"agents": 0}}, "greater than or equal to 1"),
        ({"uids": {"graders": 1}}, "graders"),
    ],
)
def test_ranges_that_can_not_be_are_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        SandboxSettings.model_validate(fields)


@needs_root
def test_a_uid_is_one_holders_alone_until_it_lets_go() -> None:
    ranges = few(agents=2)
    with draw_uid(ranges, "agent") as one, draw_uid(ranges, "agent") as two, draw_uid(ranges, "grading") as third:
        assert {one.number, two.number} == set(ranges.of("agent"))
        assert [third.number] == list(ranges.of("grading"))
        with pytest.raises(SandboxError, match=r"all 2 uids from .* raise sandbox\.uids\.agents") as caught:
            draw_uid(ranges, "agent").__enter__()
        assert caught.value.kind == "uids_used_up"
        with pytest.raises(SandboxError, match=r"raise sandbox\.uids\.gradings"):
            draw_uid(ranges, "grading").__enter__()
    with draw_uid(ranges, "grading"):
        pass


@needs_root
def test_a_uid_is_held_by_whoever_has_its_lock_however_its_owner_ends() -> None:
    ranges = few()
    words = [sys.executable, "-c", HOLD, str(ranges.first)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == f"{ranges.first}\n"
        process.kill()
        process.wait()
        with pytest.raises(SandboxError, match="all 1 uids"):
            draw_uid(ranges, "agent").__enter__()
        process.stdin.close()
        assert process.stdout.read() == ""  # all of it has ended
    with draw_uid(ranges, "agent") as uid:
        assert uid.number == ranges.first


@pytest.mark.slow
@pytest.mark.sandbox
async def test_agents_and_gradings_have_uids_of_their_own_until_they_are_destroyed(
    provider: LocalProvider, image: str, ranges: UidRanges
) -> None:
    agents = [await create(provider, image) for _ in range(3)]
    grading = await create(provider, image, "grading")
    assert {await uid_of(provider, agent) for agent in agents} == set(ranges.of("agent"))
    assert await uid_of(provider, grading) == ranges.of("grading")[0]
    with pytest.raises(SandboxError, match="all 3 uids"):
        await create(provider, image)
    freed = await uid_of(provider, agents[1])
    await provider.destroy(agents[1])
    assert await uid_of(provider, await create(provider, image)) == freed


@pytest.mark.sandbox
async def test_a_sandbox_that_is_killed_frees_its_uid(provider: LocalProvider, image: str, ranges: UidRanges) -> None:
    sandbox = await create(provider, image, "grading")
    keeper = provider._sandboxes[sandbox].keeper._keeper.pid
    os.kill(keeper, signal.SIGKILL)
    await asyncio.wait_for(provider._sandboxes[sandbox].keeper.gone.wait(), 10)
    assert await uid_of(provider, await soon_created(provider, image, "grading")) == ranges.of("grading")[0]


@pytest.mark.slow
@pytest.mark.sandbox
async def test_owners_of_one_machine_never_share_and_a_killed_one_frees_all(
    provider: LocalProvider, image: str, ranges: UidRanges, home: Path
) -> None:
    own = await create(provider, image)
    words = [sys.executable, "-c", OWNER, str(home), image, repr(ranges.model_dump()), "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - it only begins here
        assert process.stdout
        theirs = {int(await asyncio.to_thread(process.stdout.readline)) for _ in range(2)}
        assert await asyncio.to_thread(process.stdout.readline) == "all\n"
        assert {await uid_of(provider, own)} | theirs == set(ranges.of("agent"))
        with pytest.raises(SandboxError, match="all 3 uids"):
            await create(provider, image)
        process.kill()
    made = [await soon_created(provider, image) for _ in range(2)]
    assert {await uid_of(provider, sandbox) for sandbox in made} == theirs


@pytest.mark.sandbox
async def test_what_one_sandbox_writes_is_stored_as_all_is_and_is_anothers_to_change(
    provider: LocalProvider, image: str
) -> None:
    first = await create(provider, image)
    write = "mkdir /made && echo old > /made/file && ln -s file /made/link && rm -r /usr/share/tiny && : > /etc/new"
    await out(provider, first, f"{write} && mkdir /usr/share/tiny && chmod 700 /made && cp -p /bin/sh /made/sh")
    await provider.write(first, "/made/given", b"given", mode=0o600)
    kinds = {change.path: change.kind for change in await provider.changes(first)}
    assert {"/made", "/made/file", "/made/given", "/etc/new"} <= set(kinds)
    assert (await provider.stats(first)).disk_files >= 5
    name = f"snapshot-{uuid.uuid4().hex}"
    await provider.snapshot(first, name)
    box = provider._sandboxes[first]
    layer = provider.store.get(name).layers[-1]
    for root in (box.folder.upper, layer):
        found = {(path.lstat().st_uid, path.lstat().st_gid) for path in (root, *root.rglob("*"))}
        assert found == {(PAYLOAD_ID, PAYLOAD_ID)}
    second = await create(provider, name)
    assert await uid_of(provider, second) != await uid_of(provider, first)
    owners = "stat -c %u:%g / /etc /bin/* /made /made/* | sort -u"
    assert await out(provider, second, f"cat /made/given; ls /usr/share/tiny; {owners}") == "given0:0"
    await out(provider, second, "echo new >> /made/file; chmod 711 /made; mv /made/sh /made/moved; rm /made/link")
    assert await provider.read(second, "/made/file") == b"old\nnew\n"
    assert await provider.read(first, "/made/file") == b"old\n"
    changed = {change.path: change.kind for change in await provider.changes(second)}
    assert changed["/made/file"] == "changed"
    assert changed["/made/link"] == "removed"
    assert (layer / "made/file").read_bytes() == b"old\n"


@pytest.mark.sandbox
async def test_layers_of_the_store_can_not_be_written_by_who_runs_a_sandbox(
    provider: LocalProvider, image: str
) -> None:
    sandbox = await create(provider, image)
    layer = provider.store.get(image).layers[0]
    uid = await uid_of(provider, sandbox)
    done = await asyncio.to_thread(
        subprocess.run, ["touch", str(layer / "etc/new")], user=uid, group=uid, extra_groups=[], check=False
    )
    assert done.returncode
    assert not (layer / "etc/new").exists()


@pytest.mark.sandbox
@needs_root
async def test_where_a_uid_each_can_not_be_had_all_run_as_the_stored_one(
    home: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := Bubblewrap().missing():
        pytest.skip(missing)
    for settings in (SandboxSettings(home=home, uids=None), SandboxSettings(home=home)):
        monkeypatch.setattr(uids, "LOCKS", Path("/proc/paddock/uids"))
        provider = LocalProvider(settings, Bubblewrap(), None)
        try:
            assert await uid_of(provider, await create(provider, image)) == PAYLOAD_ID
        finally:
            await provider.close()


@needs_root
def test_a_file_system_without_such_mounts_is_told(tmp_path: Path) -> None:
    assert why_shared(SandboxSettings(home=tmp_path, uids=None), Bubblewrap) == "sandbox.uids is null"
    assert why_shared(SandboxSettings(home=tmp_path), Docker) == "docker mounts its layers itself"
    for name in ("lower", "upper", "work", "home"):
        (tmp_path / name).mkdir()
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    home = tmp_path / "home"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, home], check=True)
    try:
        assert "mount_setattr idmap" in (why_shared(SandboxSettings(home=home), Bubblewrap) or "")
        assert sorted(path.name for path in home.rglob("*")) == ["layers", "state"]
    finally:
        subprocess.run(["umount", home], check=True)
