"""Lives: made, kept, forked, ended; and what is left of them, which is nothing."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import (
    SandboxFixture,
    SandboxTarget,
    create_sandbox,
    error_of,
    eventually,
    namespace_init,
    neighbours,
    provider_of,
    sandbox_fixture,
)
from paddock.sandbox import ImageMissing, SandboxGone, SandboxSpec
from paddock.sandbox.restore import restore

CGROUPS = Path("/sys/fs/cgroup")


async def an_unknown_image_is_the_rows(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        error = await error_of(provider.create(SandboxSpec(image="no/such:image"), request_id="x"))
        expect(isinstance(error, ImageMissing), f"an unknown image raised {error!r}")
        expect(not provider.live(), "something lives after it")


async def destroying_leaves_nothing(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target)
        shell = await sandbox.shell()
        await shell.run(f"(setsid sh -c \"trap '' TERM; sleep {sandbox.mark}\" &) ; sleep {sandbox.mark} &")
        running = asyncio.ensure_future(sandbox.run("sleep", sandbox.mark))
        await sandbox.sh("mkdir -p /tmp/a/b; chmod 000 /tmp/a/b; chmod 000 /tmp/a; rm -rf /etc")
        await sandbox.wait_for_process()
        await provider.destroy(sandbox.id)
        error = await error_of(asyncio.wait_for(running, 5))
        expect(isinstance(error, SandboxGone), f"a command of a destroyed sandbox: {error!r}")
        expect(not sandbox.processes(), f"processes live on: {sandbox.processes()}")
        expect(not _left(target, sandbox), f"left behind: {_left(target, sandbox)}")
        await provider.destroy(sandbox.id)
        await provider.destroy("never-was")
        for act in (sandbox.sh("true"), sandbox.shell(), provider.read(sandbox.id, "/x"), provider.stats(sandbox.id)):
            error = await error_of(act)
            expect(isinstance(error, SandboxGone), f"a wish at a destroyed sandbox raised {error!r}")
        expect(not provider.live(), "a destroyed sandbox is listed")


async def closing_destroys_all(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        rooms = await asyncio.gather(*(create_sandbox(provider, target) for _ in range(4)))
        expect(
            {live.sandbox_id for live in provider.live()} == {sandbox.id for sandbox in rooms}, "live() lists others"
        )
        for sandbox in rooms:
            await sandbox.sh(f"sleep {sandbox.mark} >/dev/null 2>&1 &")
            await sandbox.wait_for_process()
    for sandbox in rooms:
        await sandbox.expect_gone("a process of a closed provider")
        expect(not _left(target, sandbox), f"left behind: {_left(target, sandbox)}")


async def death_is_no_exit_code(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target)
        shell = await sandbox.shell()
        busy = asyncio.ensure_future(shell.run("sleep 60"))
        running = asyncio.ensure_future(sandbox.run("sleep", sandbox.mark))
        pid = await sandbox.wait_for_process()
        os.kill(namespace_init(pid), signal.SIGKILL)
        for name, task in (("a command", running), ("a shell", busy)):
            error = await asyncio.wait_for(error_of(task), 10)
            expect(isinstance(error, SandboxGone), f"{name} of a sandbox that was killed: {error!r}")
        expect(isinstance(await error_of(sandbox.sh("true")), SandboxGone), "it gives answers after its death")
        await sandbox.expect_gone("a process of a dead sandbox")
        await provider.destroy(sandbox.id)
        expect(not _left(target, sandbox), f"left behind: {_left(target, sandbox)}")


async def a_death_in_pieces_is_none_either(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target)
        shell = await sandbox.shell()
        busy = asyncio.ensure_future(shell.run(f"sleep {sandbox.mark}"))
        running = asyncio.ensure_future(sandbox.run("sleep", sandbox.mark))
        await eventually(lambda: len(sandbox.processes()) == 2, "a command and a line do not run")
        first = namespace_init(sandbox.processes()[0])
        # Each has time to tell of its end before the next dies, and all are dead when the provider hears of it.
        for pid in [*sorted(set(neighbours(first)) - {first}), first]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)  # noqa: ASYNC251 - as said
        for name, task in (("a command", running), ("a shell", busy)):
            error = await asyncio.wait_for(error_of(task), 10)
            expect(isinstance(error, SandboxGone), f"{name} of a sandbox that was killed piece by piece: {error!r}")


async def nothing_is_told_of_the_dead(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target)
        await sandbox.out("mkdir /made")
        running = asyncio.ensure_future(sandbox.run("sleep", sandbox.mark))
        os.kill(namespace_init(await sandbox.wait_for_process()), signal.SIGKILL)
        image = f"conformance/{uuid.uuid4().hex}"
        questions: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
            ("changes", lambda: provider.changes(sandbox.id)),
            ("a patch", lambda: provider.patch(sandbox.id, "/made")),
            ("an archive", lambda: provider.archive(sandbox.id, ["/made"], max_bytes=1 << 20)),
            ("a snapshot", lambda: provider.snapshot(sandbox.id, image)),
            ("a command", lambda: running),
        )
        for name, ask in questions:
            error = await asyncio.wait_for(error_of(ask()), 10)
            expect(isinstance(error, SandboxGone), f"{name} of a sandbox that was killed: {error!r}")
        error = await error_of(create_sandbox(provider, target, image=image))
        expect(isinstance(error, ImageMissing), f"a snapshot of it is there: {error!r}")


async def a_cancelled_create_leaves_nothing(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        for delay_s in (0.0, 0.005, 0.02, 0.04):
            task = asyncio.ensure_future(provider.create(SandboxSpec(image=target.image), request_id=uuid.uuid4().hex))
            await asyncio.sleep(delay_s)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                await provider.destroy(task.result().sandbox_id)
        expect(not provider.live(), f"{len(provider.live())} sandboxes live")
        await eventually(lambda: not _sandbox_folders(target), "a folder of a cancelled create is there")


async def changes_are_told(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        expect(not await sandbox.provider.changes(sandbox.id, "/usr"), "a new sandbox has changes")
        await sandbox.out("mkdir -p /usr/new; echo 12345 > /usr/new/file; ln -s x /usr/new/link; rm -rf /etc/passwd")
        changes = {change.path: change for change in await sandbox.provider.changes(sandbox.id)}
        expect(changes["/usr/new/file"].kind == "added" and changes["/usr/new/file"].size_bytes == 6, f"{changes}")
        expect(changes["/usr/new/link"].type == "symlink", f"{changes.get('/usr/new/link')}")
        expect(changes["/etc/passwd"].kind == "removed", f"{changes.get('/etc/passwd')}")
        below = await sandbox.provider.changes(sandbox.id, "/usr/new")
        expect(all(change.path.startswith("/usr/new") for change in below), f"{below}")


async def patches_are_made(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target)
        await sandbox.needs("git")
        name = f"conformance/{uuid.uuid4().hex}"
        await sandbox.out(
            "git init -q /repo; cd /repo; git config user.email a@b.c; git config user.name n;"
            "echo '*.pyc' > .gitignore;"
            "printf 'one\\ntwo\\n' > text; printf 'a\\0b' > binary; echo x > gone; git add -A; git commit -qm base"
        )
        await provider.snapshot(sandbox.id, name)
        fork = await create_sandbox(provider, target, image=name)
        await fork.out("cd /repo; echo three >> text; printf 'a\\0c' > binary; rm gone; echo n > new; echo l > l.pyc")
        patch = await provider.patch(fork.id, "/repo")
        for part in (b"+three", b"GIT binary patch", b"deleted file", b"b/new"):
            expect(part in patch.data, f"{part!r} is not in the patch: {patch.data[:500]!r}")
        expect(b"l.pyc" not in patch.data, "what the repository ignores is in the patch")
        clean = await create_sandbox(provider, target, image=name)
        await clean.out("cd /repo; git apply -; cat text; test ! -e gone; cat new", stdin=patch.data)


async def archives_hold_what_is_there(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox, other = await create_sandbox(provider, target), await create_sandbox(provider, target)
        await sandbox.out("mkdir -p /made/deep; echo 1 > /made/deep/run; chmod 755 /made/deep/run; ln -s /x /made/link")
        await sandbox.out("mkfifo /made/fifo; echo 2 > '/made/a b'; echo 3 > /made/left.pyc")
        made = await provider.archive(sandbox.id, ["/made", "/nothing"], exclude=["*.pyc"], max_bytes=1 << 20)
        expect((made.missing, made.left_out) == (["/nothing"], 1), f"missing {made.missing}, {made.left_out} left out")
        await restore(provider, other.id, made.data)
        listing = await other.out(
            "cat /made/deep/run '/made/a b'; stat -c %a /made/deep/run; readlink /made/link; ls /made"
        )
        expect(listing == "1\n2\n755\n/x\na b\ndeep\nlink", f"what was archived is {listing!r} elsewhere")
        await sandbox.out("head -c 100000 /dev/zero > /made/big")
        large = await provider.archive(sandbox.id, ["/made"], max_bytes=100_000)
        expect(large.too_large and not large.data, "an archive over its bound was made")


async def forks_are_independent(target: SandboxTarget) -> None:
    name = f"conformance/{uuid.uuid4().hex}"
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target)
        await sandbox.out("echo base > /tmp/f; rm -rf /etc; mkdir /etc; echo 1 > /etc/one; mkdir -m 700 /root/closed")
        expect(await provider.snapshot(sandbox.id, name) == name, "the snapshot has another name")
        forks = [await create_sandbox(provider, target, image=name) for _ in range(2)]
        for fork in forks:
            listing = await fork.out("cat /tmp/f; ls /etc; stat -c %a /root/closed; stat -c %a /tmp")
            expect(listing == "base\none\n700\n1777", f"a fork has {listing!r}")
        await forks[0].out("echo first > /tmp/f")
        await sandbox.out("echo origin > /tmp/f")
        await provider.destroy(sandbox.id)
        texts = [await fork.out("cat /tmp/f") for fork in forks]
        expect(texts == ["first", "base"], f"forks and their origin are not independent: {texts}")
        expect(not await provider.changes(forks[1].id, "/tmp"), "a fork's changes are told against another")


async def many_live_at_once(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        rooms = await asyncio.gather(*(create_sandbox(provider, target) for _ in range(12)))
        await asyncio.gather(*(sandbox.out(f"echo {number} > /tmp/x") for number, sandbox in enumerate(rooms)))
        texts = await asyncio.gather(*(sandbox.out("cat /tmp/x") for sandbox in rooms))
        expect(texts == [str(number) for number in range(len(rooms))], "12 sandboxes at once mix")


def _left(target: SandboxTarget, sandbox: SandboxFixture) -> list[str]:
    """Folders, mounts and cgroups with the sandbox's id in their names."""
    left = [str(path) for path in target.settings.home.glob(f"state/*/*{sandbox.id}*")]
    left += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if sandbox.id in line]
    return left + [folder for folder, _, _ in os.walk(CGROUPS) if sandbox.id in folder]


def _sandbox_folders(target: SandboxTarget) -> list[Path]:
    """Of this process's providers."""
    return [path for path in target.settings.home.glob(f"state/{os.getpid()}-*/*") if path.is_dir()]


SUITE = [
    Behaviour("an unknown image is the row's mistake", an_unknown_image_is_the_rows),
    Behaviour("destroying leaves nothing, and is repeated without harm", destroying_leaves_nothing),
    Behaviour("closing a provider destroys all that it has made", closing_destroys_all),
    Behaviour("a sandbox that dies is gone, which is no exit code", death_is_no_exit_code),
    Behaviour("one that is killed piece by piece is gone, too", a_death_in_pieces_is_none_either),
    Behaviour("nothing is told of the files of one that died", nothing_is_told_of_the_dead),
    Behaviour("a cancelled create leaves nothing", a_cancelled_create_leaves_nothing),
    Behaviour("changes against the image are told", changes_are_told),
    Behaviour("a patch of a repository applies to its base", patches_are_made),
    Behaviour("an archive holds what is there, and is put elsewhere", archives_hold_what_is_there),
    Behaviour("snapshots fork, and forks are independent", forks_are_independent),
    Behaviour("12 sandboxes live at once", many_live_at_once),
]
