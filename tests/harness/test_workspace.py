"""Claims about the workspace of a harness, over real sandboxes: what a harness can do, and what is told of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from paddock.errors import LeakError
from paddock.harness import REFUSED_CODE, ExecOutput, SandboxWorkspace, ShellOutput
from paddock.sandbox import (
    BudgetExceeded,
    MemoryKill,
    Provider,
    SandboxError,
    SandboxGone,
    SandboxLimits,
    SandboxSettings,
    SandboxSpec,
    open_provider,
)
from paddock.sandbox.blocklist import Blocklist
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of

pytestmark = pytest.mark.sandbox
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def home() -> Any:
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "repo", {"a.txt": "a\n"})
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


@pytest.fixture
async def provider(home: Any) -> AsyncIterator[Provider]:
    try:
        opened = await open_provider(SandboxSettings(home=home, runtime="bubblewrap"))
    except SandboxError as error:
        pytest.skip(str(error))
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
async def open_workspace(provider: Provider) -> Open:
    async def make(*, limits: SandboxLimits | None = None, **more: Any) -> SandboxWorkspace:
        spec = SandboxSpec(image="repo", workdir=WORKDIR, limits=limits or SandboxLimits(memory_mib=256))
        handle = await provider.create(spec, request_id=str(id(more)))
        return SandboxWorkspace(provider, handle.sandbox_id, workdir=WORKDIR, **more)

    return make


async def test_a_command_gives_its_code_and_both_streams_in_order(open_workspace: Open) -> None:
    space = await open_workspace()
    done = await space.exec(["sh", "-c", "pwd; echo no >&2; cat; exit 3"], stdin=b"in\n", env={"A": "1"})
    assert done == ExecOutput(3, b"/testbed\nno\nin\n")
    assert (await space.exec(["no-such-program"])).exit_code == 127


async def test_files_are_read_and_written_from_the_workdir(open_workspace: Open) -> None:
    space = await open_workspace()
    await space.write("new/b.txt", b"\x00b")
    assert await space.read("/testbed/new/b.txt") == b"\x00b"
    assert await space.read("a.txt") == b"a\n"
    with pytest.raises(FileNotFoundError):
        await space.read("c.txt")


async def test_a_command_takes_no_longer_than_it_may(open_workspace: Open) -> None:
    space = await open_workspace(command_timeout_s=0.3)
    done = await space.exec(["sleep", "30"], timeout_s=20)
    assert done.timed_out
    assert "killed" in done.text()
    assert space.counts.timeouts == 1
    assert 0.2 < space.counts.tool_s < 10


async def test_a_shell_keeps_its_state_and_can_be_watched_typed_at_and_interrupted(open_workspace: Open) -> None:
    space = await open_workspace()
    shell = await space.shell()
    assert (await shell.run("cd /tmp; x=5")).workdir == "/tmp"
    assert (await shell.run("echo $x; false")) == ShellOutput(1, b"5\n", "/tmp")
    waiting = await shell.run("read line; echo got $line; sleep 30", wait_s=0.2)
    assert waiting.running
    said = await shell.type(b"hello\n", wait_s=0.2)
    output = said.output
    while b"got hello" not in output:
        assert said.running
        said = await shell.poll(wait_s=0.2)
        output += said.output
    assert said.running
    ended = await shell.interrupt()
    assert ended.exit_code == 130
    assert (await shell.run("sleep 30", timeout_s=0.3)).timed_out
    assert (await shell.run("echo $x")).output == b"5\n"
    await shell.close()


async def test_shells_do_not_hold_each_other_up(open_workspace: Open) -> None:
    space = await open_workspace()
    shells = [await space.shell() for _ in range(3)]
    wait = "until [ -e /tmp/0 -a -e /tmp/1 -a -e /tmp/2 ]; do sleep 0.05; done"
    lines = [f"touch /tmp/{number}; {wait}; echo met" for number in range(3)]
    met = await asyncio.gather(*(shell.run(line, timeout_s=60) for shell, line in zip(shells, lines, strict=True)))
    assert [one.output for one in met] == [b"met\n"] * 3


async def test_a_refused_command_does_not_run_and_is_counted(open_workspace: Open) -> None:
    space = await open_workspace(blocklist=Blocklist())
    shell = await space.shell()
    for refused in (
        await space.exec(["bash", "-c", "touch /tmp/ran; shutdown now"]),
        await shell.run("touch /tmp/ran; shutdown now"),
    ):
        assert refused.exit_code == REFUSED_CODE
        assert refused.refused
        assert "Not run" in refused.text()
    assert (await space.exec(["ls", "/tmp"])).output == b""
    assert sum(space.counts.refused.values()) == 2
    assert space.counts.commands == 1


async def test_what_is_typed_is_judged_by_the_whole_line(open_workspace: Open) -> None:
    space = await open_workspace(blocklist=Blocklist())
    shell = await space.shell()
    await shell.run("bash --norc", wait_s=0.3)
    first = await shell.type(b"shut")
    assert first.refused is None
    second = await shell.type(b"down now\n")
    assert second.refused is not None
    assert second.running


async def test_a_memory_kill_is_told_with_the_result(open_workspace: Open) -> None:
    space = await open_workspace(limits=SandboxLimits(memory_mib=48))
    try:
        done = await space.exec(["sh", "-c", "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}; true"])
    except BudgetExceeded:
        pytest.fail("one process was too large, not the sandbox")
    assert [one.limit_mib for one in done.killed] == [48]
    assert space.counts.memory_kills == len(done.killed)


def test_kills_are_words_for_a_model_and_fields_for_a_program() -> None:
    killed = (MemoryKill(command="python big.py", memory_mib=900.4, limit_mib=1024),)
    done = ExecOutput(137, b"so far\n", killed=killed)
    assert done.text() == "so far\n[`python big.py` was killed: it held 900 MiB, and 1024 MiB is all there is]"
    assert done.output == b"so far\n"


async def test_all_that_comes_out_is_looked_at_also_across_two_results(open_workspace: Open) -> None:
    def look(data: bytes) -> None:
        if b"hidden-token" in data:
            raise LeakError("seen", kind="canary")

    space = await open_workspace(inspect_output=look)
    await space.write("x", b"hidden-token")
    for leak in (space.exec(["cat", "x"]), space.read("x")):
        with pytest.raises(LeakError):
            await leak
    shell = await space.shell()
    await shell.run("printf hidden-; sleep 0.5; printf token; sleep 30", wait_s=0.2)
    with pytest.raises(LeakError):
        for _ in range(100):
            await shell.poll(wait_s=0.1)


async def test_a_dead_sandbox_is_raised_never_told_as_output(open_workspace: Open, provider: Provider) -> None:
    space = await open_workspace()
    running = asyncio.create_task(space.exec(["sleep", "30"]))
    await asyncio.sleep(0.2)
    await provider.destroy(provider.live()[0].sandbox_id)
    with pytest.raises(SandboxGone):
        await running
    with pytest.raises(SandboxGone):
        await space.read("a.txt")
