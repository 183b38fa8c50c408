"""Files: read and written from outside, and what programs inside do with those of the image."""

import asyncio
import random

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import SandboxTarget, create_sandbox, error_of, provider_of, sandbox_fixture

MMAP = """
import fcntl, mmap, os, sys
with open("/tmp/mapped", "w+b") as file:
    file.truncate(1 << 20)
    with mmap.mmap(file.fileno(), 0) as view:
        view[-3:] = b"end"
        view.flush()
    fcntl.flock(file, fcntl.LOCK_EX)
    with open("/tmp/mapped", "rb") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            sys.exit("a lock that is held was given again")
        except BlockingIOError:
            pass
        other.seek(-3, 2)
        print(other.read().decode())
"""
GIT = """
set -e
git init -q /tmp/repo; cd /tmp/repo
git config user.email a@b.c; git config user.name n
mkdir -p a/b; for i in 1 2 3 4 5; do echo $i > a/b/$i; done; ln -s a/b/1 link; chmod 755 a/b/2
git add -A; git commit -qm one
rm -rf a; echo other > link2; mkdir a; echo new > a/new; git mv link moved
git stash -uq; git stash pop -q
git reset -q --hard; git clean -fdxq
git status --short; cat a/b/3 link; git checkout -q -b side; git rm -rq a; git commit -qm two; git checkout -q -; ls a/b
"""


async def round_trips(target: SandboxTarget) -> None:
    data = random.randbytes(5_000_000)
    async with sandbox_fixture(target, workdir="/tmp") as sandbox:
        await sandbox.provider.write(sandbox.id, "/tmp/made/on the/way/ü\n'", data)
        expect(await sandbox.provider.read(sandbox.id, "/tmp/made/on the/way/ü\n'") == data, "a file came back changed")
        expect(await sandbox.out('wc -c < "/tmp/made/on the/way/ü\n\'"') == "5000000", "it is not the same inside")
        await sandbox.provider.write(sandbox.id, "relative", b"")
        expect(await sandbox.out("cat /tmp/relative; echo .") == ".", "a relative path is not below the workdir")
        await sandbox.out("printf 'in\\0side' > /tmp/inside")
        expect(
            await sandbox.provider.read(sandbox.id, "/tmp/inside") == b"in\0side", "a file written inside reads changed"
        )
        expect(
            await sandbox.provider.read(sandbox.id, "/tmp/inside", max_bytes=3) == b"in\0", "max_bytes is not obeyed"
        )
        await sandbox.provider.write(sandbox.id, "/tmp/inside", b"short")
        expect(await sandbox.provider.read(sandbox.id, "/tmp/inside") == b"short", "an old file's end is left")


async def modes_are_set(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        for path, mode, expected in (
            ("/tmp/a", None, 0o644),
            ("/tmp/b", 0o755, 0o755),
            ("/tmp/c", 0o600, 0o600),
            ("/tmp/b", None, 0o755),
        ):
            await sandbox.provider.write(sandbox.id, path, b"x", mode=mode)
            actual = int(await sandbox.out(f"stat -c %a {path}"), 8)
            expect(actual == expected, f"{path} has mode {actual:o}, not {expected:o}")


async def links_are_followed_inside(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.out(
            "mkdir /tmp/d; ln -s /etc/target /tmp/d/absolute; ln -s ../../../../../../etc/target /tmp/d/up"
        )
        await sandbox.provider.write(sandbox.id, "/tmp/d/absolute", b"inside")
        expect(
            await sandbox.out("cat /etc/target") == "inside", "an absolute link did not lead to the sandbox's own file"
        )
        expect(await sandbox.provider.read(sandbox.id, "/tmp/d/up") == b"inside", "a link upwards left the sandbox")


async def wrong_paths_are_told(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.out("mkfifo /tmp/fifo; mkdir /tmp/dir; echo x > /tmp/file; ln -s loop /tmp/loop")
        read, write = sandbox.provider.read, sandbox.provider.write
        for path, wanted in (
            ("/tmp/missing", FileNotFoundError),
            ("/tmp/dir", IsADirectoryError),
            ("/tmp/file/below", NotADirectoryError),
            ("/tmp/loop", OSError),
            ("/tmp/fifo", OSError),
            ("/dev/zero", OSError),
        ):
            error = await asyncio.wait_for(error_of(read(sandbox.id, path)), 5)
            expect(isinstance(error, wanted), f"reading {path} raised {error!r}")
        for path, wanted in (("/tmp/dir", IsADirectoryError), ("/tmp/fifo", OSError), ("/tmp/file/below", OSError)):
            error = await asyncio.wait_for(error_of(write(sandbox.id, path, b"x")), 5)
            expect(isinstance(error, wanted), f"writing {path} raised {error!r}")
        expect(await sandbox.out("cat /tmp/file") == "x", "a refused write changed something")


async def what_is_closed_stays_closed(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"):
            before = await sandbox.sh(f"cat {path}")
            error = await error_of(sandbox.provider.write(sandbox.id, path, b"0"))
            expect(isinstance(error, OSError), f"writing {path} from outside raised {error!r}")
            expect((await sandbox.sh(f"cat {path}")).stdout == before.stdout, f"{path} was changed")


async def image_folders_are_removed_and_made(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox, other = await create_sandbox(provider, target), await create_sandbox(provider, target)
        before = await sandbox.out("ls -a /etc")
        expect(before == await other.out("ls -a /etc"), "two sandboxes of an image differ")
        await sandbox.out(
            "rm -rf /etc && ! test -e /etc && mkdir /etc && ls /etc | wc -l | grep -q '^ *0$' && echo x > /etc/new"
        )
        expect(
            await sandbox.out("ls -A /etc; cat /etc/new") == "new\nx", "a folder made anew holds what it held before"
        )
        expect(await other.out("ls -a /etc") == before, "what one sandbox removed is missing in another")


async def image_folders_are_renamed(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        before = await sandbox.out("ls -A /etc")
        await sandbox.out("mv /etc /tmp/moved && mv /tmp/moved /usr/other && ! test -e /etc && mv /usr/other /etc")
        expect(await sandbox.out("ls -A /etc") == before, "a folder that was moved about lost something")
        await sandbox.out('cd /etc && for f in *; do mv "$f" "$f.x"; done && for f in *.x; do mv "$f" "${f%.x}"; done')
        expect(await sandbox.out("ls -A /etc") == before, "files that were renamed are lost")


async def links_and_modes_work(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        image_file = await sandbox.out("for f in /etc/*; do test -f $f && test ! -L $f && echo $f && break; done")
        await sandbox.out(f"ln {image_file} /tmp/hard; echo more >> /tmp/hard")
        expect(await sandbox.out(f"tail -n 1 {image_file}") == "more", "a hard link to a file of the image is a copy")
        listing = await sandbox.out(
            f"chmod 4701 {image_file}; stat -c %a:%h {image_file}; touch -d @1000 /tmp/hard; stat -c %Y {image_file}"
        )
        expect(listing == "4701:2\n1000", f"mode, links and time are {listing!r}")
        await sandbox.out(
            "ln -s nowhere /tmp/soft && test -L /tmp/soft && test ! -e /tmp/soft && "
            "mkdir /tmp/x && chmod 000 /tmp/x && rmdir /tmp/x"
        )


async def maps_and_locks_work(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        result = await sandbox.python(MMAP)
        expect(bytes(result.stdout) == b"end\n", f"{bytes(result.stdout)!r} {bytes(result.stderr)[-300:]!r}")


async def git_works(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("git")
        expect(await sandbox.out(GIT) == "3\n1\n1\n2\n3\n4\n5", "git does not bring back what was committed")


async def large_files_work(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        script = (
            "dd if=/dev/zero of=/tmp/large bs=1M count=100 2>/dev/null; cp /tmp/large /root/copy; wc -c < /root/copy"
        )
        expect(await sandbox.out(script) == str(100 << 20), "100 MB came out as another size")
        stats = await sandbox.provider.stats(sandbox.id)
        expect(stats.disk_mib >= 199, f"200 MiB on disk are told as {stats.disk_mib:.0f}")


SUITE = [
    Behaviour("files are read and written whole, their folders made", round_trips),
    Behaviour("files get the mode asked for, and keep theirs", modes_are_set),
    Behaviour("links are followed inside", links_are_followed_inside),
    Behaviour("wrong paths are told as what they are, at once", wrong_paths_are_told),
    Behaviour("files of the kernel can't be written from outside either", what_is_closed_stays_closed),
    Behaviour("folders of the image are removed and made anew", image_folders_are_removed_and_made),
    Behaviour("folders and files of the image are renamed", image_folders_are_renamed),
    Behaviour("hard links, symbolic links, modes and times work", links_and_modes_work),
    Behaviour("memory maps and locks work", maps_and_locks_work),
    Behaviour("git resets, cleans, stashes and switches", git_works),
    Behaviour("files of 100 MB work, and are counted", large_files_work),
]
