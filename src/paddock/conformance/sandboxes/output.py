"""Output: any bytes, any amount, in order."""

import asyncio
import time

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import SandboxTarget, sandbox_fixture
from paddock.sandbox import Output

HUGE_BYTES = 50_000_000
HUGE_S = 20.0
"""For that much, on a loaded machine; reading in linear time takes a twentieth."""
KEEP = 1000
LINE = b"0123456789abcde\n"
ANY_BYTES = 'i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i+1)); done'


async def any_bytes_come_out(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        result = await sandbox.sh(f"{ANY_BYTES}; {{ {ANY_BYTES}; }} >&2")
        for name, stream in (("stdout", result.stdout), ("stderr", result.stderr)):
            expect(bytes(stream) == bytes(range(256)), f"on {name}, 256 different bytes came as {bytes(stream)!r}")
            expect(stream.whole, f"{name} is told as cut")


async def huge_output_is_capped(target: SandboxTarget) -> None:
    script = f"yes 0123456789abcde | head -c {HUGE_BYTES}; printf end"
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("yes", "head")
        started = time.monotonic()
        result = await sandbox.sh(script, head_bytes=KEEP, tail_bytes=KEEP)
        took = time.monotonic() - started
        _check_capped(result.stdout)
        expect(took < HUGE_S, f"{HUGE_BYTES} bytes took {took:.0f} s")


async def huge_output_of_a_shell_is_capped(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("yes", "head")
        shell = await sandbox.shell(head_bytes=KEEP, tail_bytes=KEEP)
        started = time.monotonic()
        result = await shell.run(f"yes 0123456789abcde | head -c {HUGE_BYTES}; printf end", timeout_s=2 * HUGE_S)
        took = time.monotonic() - started
        expect(result.exit_code == 0, f"it ended with {result.exit_code}, killed by {result.killed_by}")
        _check_capped(result.output)
        expect(took < 2 * HUGE_S, f"{HUGE_BYTES} bytes took {took:.0f} s")


def _check_capped(stream: Output) -> None:
    expect(stream.head == (LINE * KEEP)[:KEEP], f"the head is {stream.head[:40]!r}..., {len(stream.head)} bytes")
    tail = (LINE * KEEP)[: HUGE_BYTES % len(LINE) or len(LINE)] + b"end"
    expect(stream.tail.endswith(tail[-10:]), f"the tail ends with {stream.tail[-40:]!r}")
    total = len(stream.head) + stream.dropped_bytes + len(stream.tail)
    expect(len(stream.tail) == KEEP, f"{len(stream.tail)} bytes are kept of the end, not {KEEP}")
    expect(total == HUGE_BYTES + 3, f"{total} bytes are accounted for, of {HUGE_BYTES + 3}")


async def nothing_may_be_kept(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        result = await sandbox.sh("echo 12345; echo 123 >&2", head_bytes=0, tail_bytes=0)
        dropped = (result.stdout.dropped_bytes, result.stderr.dropped_bytes)
        expect(dropped == (6, 4) and not result.stdout.head + result.stdout.tail, f"with nothing to keep: {result}")
        result = await sandbox.sh("printf 12345", head_bytes=2, tail_bytes=3)
        expect(bytes(result.stdout) == b"12345", f"five bytes with room for five came as {result.stdout}")
        result = await sandbox.sh("printf 123456", head_bytes=2, tail_bytes=3)
        expect(result.stdout == Output(head=b"12", tail=b"456", dropped_bytes=1), f"one byte too many: {result.stdout}")


async def streams_do_not_block_each_other(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        script = "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"
        result = await sandbox.sh(script, timeout_s=30, head_bytes=10, tail_bytes=10)
        sizes = [len(out.head) + len(out.tail) + out.dropped_bytes for out in (result.stdout, result.stderr)]
        expect(sizes == [1_000_000, 2_000_000], f"2 MB and 1 MB in turns came as {sizes} ({result.killed_by})")


async def merged_streams_keep_their_order(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
        result = await sandbox.sh(script, merge_stderr=True)
        expected = "".join(f"o{i}\ne{i}\n" for i in range(200)).encode()
        expect(bytes(result.stdout) == expected, "merged streams are not in the order written")
        expect(result.stderr == Output(), f"stderr is not empty: {result.stderr}")


async def slow_writers_are_read_as_they_write(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        results = await asyncio.gather(
            *(sandbox.sh("for i in 1 2 3 4 5; do printf $i; sleep 0.1; done") for _ in range(4))
        )
        outputs = {bytes(result.stdout) for result in results}
        expect(outputs == {b"12345"}, f"what was written bit by bit came as {outputs}")


SUITE = [
    Behaviour("any bytes come out as they were written", any_bytes_come_out),
    Behaviour("50 MB of output is capped to head and tail as it comes", huge_output_is_capped),
    Behaviour("50 MB of a shell's output is capped to head and tail as it comes", huge_output_of_a_shell_is_capped),
    Behaviour("output is cut at the byte that was asked for", nothing_may_be_kept),
    Behaviour("neither stream waits for the other", streams_do_not_block_each_other),
    Behaviour("merged streams keep their order", merged_streams_keep_their_order),
    Behaviour("what is written bit by bit comes whole", slow_writers_are_read_as_they_write),
]
