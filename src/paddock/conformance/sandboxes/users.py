"""Users of the host: each sandbox is one of its own, where the machine can do it, and takes no other's limits."""

import asyncio

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.sandboxes.fixture import SandboxFixture, SandboxTarget, create_sandbox, provider_of
from paddock.sandbox.runtimes import RUNTIMES
from paddock.sandbox.settings import UidRanges
from paddock.sandbox.uids import why_shared

LIMITS = """
import array, ctypes, fcntl, itertools, os, socket, time
libc, held, numbers = ctypes.CDLL(None, use_errno=True), [], itertools.count()

def instance():
    return libc.inotify_init() >= 0

def queue():
    return libc.mq_open(b"/%d-%d" % (os.getpid(), next(numbers)), os.O_CREAT | os.O_RDWR, 0o600, None) >= 0

def pipe():
    return fcntl.fcntl(os.pipe()[1], fcntl.F_GETPIPE_SZ) >= 65536

def sent():
    near, far = socket.socketpair()
    held.extend((near, far))
    try:
        near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [near.fileno()] * 200))])
    except OSError:
        return False
    return True

kinds = {"inotify instances": instance, "message queues": queue, "pages of pipes": pipe, "descriptors sent": sent}
"""
ONE_EACH = "print(*(name for name, take in kinds.items() if not take()), sep=', ')"
ALL = """
print(*(name for name, take in kinds.items() if all(take() for _ in range(1300))), sep=', ')
open("/tmp/taken", "w").close()
while not os.path.exists("/tmp/stop"):
    time.sleep(0.02)
"""


async def uids_are_its_own(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        rooms = [await create_sandbox(provider, target) for _ in range(2)]
        ranges = await _ranges(target, rooms[0])
        grading = await create_sandbox(provider, target, purpose="grading")
        agents = [await _uid(sandbox) for sandbox in rooms]
        expect(agents[0] != agents[1], f"two sandboxes run as uid {agents[0]} of the host")
        for uids, allowed in ((agents, ranges.of("agent")), ([await _uid(grading)], ranges.of("grading"))):
            expect(all(uid in allowed for uid in uids), f"they run as {uids}, which are not all in {allowed}")


async def limits_are_its_own(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox, other = (
            await create_sandbox(provider, target),
            await create_sandbox(provider, target, purpose="grading"),
        )
        await _ranges(target, sandbox)
        lacking = await _lacking(other)
        expect(not lacking, f"a new sandbox on an idle machine has no {lacking}")
        taking = asyncio.ensure_future(sandbox.python(LIMITS + ALL))
        try:
            await sandbox.wait_for_file("/tmp/taken")
            lacking = await _lacking(other)
        finally:
            await provider.write(sandbox.id, "/tmp/stop", b"")
            result = await taking
        expect(result.ok, f"the check ended with {result.exit_code}: {bytes(result.stderr)[-300:]!r}")
        expect(not bytes(result.stdout).strip(), f"there is no end to {bytes(result.stdout)!r}")
        expect(not lacking, f"one sandbox has taken all {lacking} of another")


async def _ranges(target: SandboxTarget, sandbox: SandboxFixture) -> UidRanges:
    runtime = next(candidate for candidate in RUNTIMES if candidate.name == sandbox.handle.runtime)
    why_not = await asyncio.to_thread(why_shared, target.settings, runtime)
    if target.settings.uids is None or why_not is not None:
        raise NotApplicable(f"all sandboxes run as one uid here: {why_not}")
    return target.settings.uids


async def _uid(sandbox: SandboxFixture) -> int:
    return int((await sandbox.out("cat /proc/self/uid_map")).split()[1])


async def _lacking(sandbox: SandboxFixture) -> str:
    return bytes((await sandbox.python(LIMITS + ONE_EACH)).stdout).decode().strip()


SUITE = [
    Behaviour("each sandbox is a user of its own, gradings of another range than agents", uids_are_its_own),
    Behaviour("what one takes of a user's limits, no other lacks", limits_are_its_own),
]
