"""A keeper is believed only where the kernel says that it is the keeper, and that what it names is its sandbox's."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import few

from paddock.sandbox import SandboxGone
from paddock.sandbox.keeper import messages
from paddock.sandbox.keeper.launch import RuntimeStart, StartPlan
from paddock.sandbox.keeper_client import KeeperClient, _KeeperAnswer
from paddock.sandbox.keeper_factory import KeeperProcess
from paddock.sandbox.processes import kill_tree, started_at

pytestmark = pytest.mark.sandbox
KEEPER = """
import json, os, select, signal, socket, sys
from paddock.sandbox.keeper import messages, syscalls
link, lies, by_another = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]), sys.argv[3] == "another"
syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWPID)
bound, binding = os.pipe()
if (init := os.fork()) == 0:
    syscalls.die_with_parent(signal.SIGKILL)
    os.write(binding, b"1")
    signal.pause()
os.read(bound, 1)  # a keeper that is killed before would leave it behind
while True:
    try:
        message, fds = messages.receive(link)
    except EOFError:
        break
    for fd in fds:
        os.close(fd)
    if "died" in lies and message["op"] != "start":
        select.select([link], [], [])  # one more request, which stays unread
        messages.send(link, {"op": "died", "error": "its first process ended", **lies["died"]})
        break
    if message["op"] == "start":
        answer = {"op": "ready", "pid": init, "init": init, "pid_ns": os.stat(f"/proc/{init}/ns/pid").st_ino}
    else:
        if (child := os.fork()) == 0:
            os.execvp("sleep", ["sleep", "60"])
        answer = {"op": "started", "id": message["id"], "pid": child}
    answer.update(lies.get(answer["op"], {}))
    if by_another and message["op"] != "start":
        if os.fork() == 0:
            messages.send(link, answer, [0])
            os._exit(0)
        os.wait()
    elif "raw" in answer:
        link.send(answer["raw"].encode())
    else:
        messages.send(link, answer)
os.kill(init, signal.SIGKILL)
"""
"""A keeper over namespaces alone, that tells lies."""
PLAN = StartPlan([], "", "", "", 0, 0, "", False, 0, {}, 0, 0, [], [], RuntimeStart())
"""That keeper reads no plan."""
Start = Callable[..., Awaitable[KeeperClient]]
NO_MESSAGES = ["", "@", "{", "[]", "1", '"x"', "{}", "[" * 50_000, '{"op": "started"}', '{"op": "opened", "id": 1}']
NO_MESSAGES += ['{"op": "started", "id": 1, "pid": "x"}', '{"op": [], "id": {}}']
NO_MESSAGES += ['{"op": "exited", "id": [], "code": 0}']


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
async def connect() -> AsyncIterator[Start]:
    """A client of such a keeper; `lies` replace parts of its answers, by their `op`. Nothing of it is left."""
    async with AsyncExitStack() as stack:

        async def start(*, by: str = "keeper", timeout_s: float = 60.0, **lies: Any) -> KeeperClient:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            messages.ask_for_senders(ours)
            words = [sys.executable, "-c", KEEPER, str(theirs.fileno()), json.dumps(lies), by]
            process = subprocess.Popen(  # noqa: ASYNC220
                words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
            theirs.close()
            client = KeeperClient("one", KeeperProcess(ours, process.pid, os.pidfd_open(process.pid)), timeout_s)

            async def end() -> None:
                client.close()
                await asyncio.wait_for(client.gone.wait(), 30)
                process.wait(30)
                await _none_left(process.pid)

            stack.push_async_callback(end)
            return client

        yield start


def _alive(group: int) -> bool:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may go meanwhile
            state, _, its = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its) == group and state not in "ZX":
                return True
    return False


async def _none_left(group: int) -> None:
    """Of a keeper and all that it forked. The dead are none: init may wait for them only now and then."""
    try:
        async with asyncio.timeout(30):
            while _alive(group):
                await asyncio.sleep(0.01)
    except TimeoutError:
        os.killpg(group, signal.SIGKILL)
        pytest.fail("the keeper has ended, and processes of its group live on")


async def exec_in(client: KeeperClient) -> Any:
    return await client.exec(["sleep", "60"], {}, "/", [])


@pytest.mark.slow
async def test_a_command_of_the_sandbox_is_found_and_can_be_killed(connect: Start) -> None:
    client = await connect()
    await client.start(PLAN)
    process = (await exec_in(client)).process
    assert started_at(process.pid) == process.started
    assert await kill_tree(process)
    async with asyncio.timeout(30):
        while started_at(process.pid) is not None:
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_what_another_process_says_ends_the_sandbox_with_one_line(
    connect: Start, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(by="another")
    await client.start(PLAN)
    before = open_descriptors()
    with pytest.raises(SandboxGone, match="sent a message in the place of its keeper"):
        await exec_in(client)
    await asyncio.wait_for(client.gone.wait(), 30)
    assert open_descriptors() == before - 2  # the socket's and the keeper's; what came with the message is closed
    assert len(caplog.records) == 1
    with pytest.raises(SandboxGone):
        await exec_in(client)


@pytest.mark.slow
async def test_a_process_of_the_host_is_not_taken_for_a_command(connect: Start) -> None:
    with subprocess.Popen(["sleep", "60"]) as foreign:  # noqa: ASYNC220
        client = await connect(started={"pid": foreign.pid})
        await client.start(PLAN)
        asking = asyncio.ensure_future(exec_in(client))
        await asyncio.sleep(0)
        asking.cancel()  # a command that nobody wants any more is killed when it has started
        with pytest.raises((SandboxGone, asyncio.CancelledError)):
            await asking
        await asyncio.wait_for(client.gone.wait(), 30)
        assert "is not in its pid namespace" in client.ended.result()
        assert foreign.poll() is None
        foreign.send_signal(signal.SIGKILL)


@pytest.mark.slow
async def test_a_sandbox_that_is_not_below_its_keeper_or_is_ours_is_not_believed(connect: Start) -> None:
    ours = Path("/proc/self/ns/pid").stat().st_ino  # noqa: ASYNC240 - the kernel's, at once
    for lie in ({"init": os.getpid()}, {"pid": os.getpid()}, {"pid_ns": ours}, {"pid_ns": 1}, {"init": None}):
        client = await connect(ready=lie)
        with pytest.raises(SandboxGone, match="can't be believed"):
            await client.start(PLAN)
        await asyncio.wait_for(client.gone.wait(), 30)


@pytest.mark.slow
@pytest.mark.parametrize("raw", few(NO_MESSAGES, ["", "[" * 50_000, '{"op": "started"}'], pytest.mark.long))
async def test_what_is_no_message_ends_the_sandbox(connect: Start, raw: str) -> None:
    client = await connect(started={"raw": raw})
    await client.start(PLAN)
    with pytest.raises(SandboxGone, match="can't be believed"):
        await exec_in(client)


@pytest.mark.slow
async def test_what_a_keeper_said_last_is_read_also_where_it_left_a_request_unread(connect: Start) -> None:
    client = await connect(died={"status": -signal.SIGKILL})
    await client.start(PLAN)
    requests = [asyncio.ensure_future(client.alive()) for _ in range(2)]
    await asyncio.sleep(0)
    # Nothing is read here until it has ended.
    os.waitid(os.P_PID, client._keeper.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    ends = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(end) for end in ends] == [SandboxGone, SandboxGone]
    found = await client.end()
    assert (found.how, found.status, found.doubtful) == ("died", -signal.SIGKILL, False)


@pytest.mark.slow
async def test_a_keeper_that_hangs_ends_its_sandbox(connect: Start) -> None:
    client = await connect(timeout_s=0.3)
    await client.start(PLAN)
    os.kill(client._keeper.pid, signal.SIGSTOP)
    with pytest.raises(SandboxGone, match=r"its keeper hangs: it did not answer `exec` in 0\.3 s"):
        await exec_in(client)
    await asyncio.wait_for(client.gone.wait(), 30)


@pytest.mark.slow
async def test_a_descriptor_that_comes_as_its_asker_goes_is_closed(connect: Start) -> None:
    client = await connect()
    await client.start(PLAN)
    asking = asyncio.create_task(client._ask(7, {"op": "open", "id": 7}))
    while 7 not in client._answers:
        await asyncio.sleep(0)
    descriptor = os.open("/dev/null", os.O_RDONLY)
    client._answers[7].set_result(_KeeperAnswer({}, [descriptor]))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
