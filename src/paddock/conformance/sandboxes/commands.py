"""Running a command: its words, its environment, its input, and how it ended."""

import asyncio
import hashlib
import os
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import SandboxTarget, error_of, sandbox_fixture
from paddock.sandbox import ExecRequest, SandboxRequestError, SandboxSpec
from paddock.sandbox.sandbox import DEFAULT_ENV

CODES = (0, 1, 2, 42, 125, 126, 127, 128, 130, 137, 254, 255)
SIGNALS = (1, 2, 3, 6, 9, 13, 15)
ODD_WORDS = ("", " ", "a b", "a\nb", "'", '"', "\\", "$HOME", "*", "-n", "`id`", "ü€😀", "\x01\x7f", "\t")
CANARY = "PADDOCK_CANARY"


async def exit_codes_are_exact(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        results = await asyncio.gather(*(sandbox.sh(f"exit {code}") for code in CODES))
        codes = tuple(result.exit_code for result in results)
        expect(codes == CODES, f"asked for {CODES}, got {codes}")
        expect(all(result.killed_by is None for result in results), "a command that ended itself was told as killed")


async def signals_are_128_plus(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        for number in SIGNALS:
            result = await sandbox.sh(f"kill -{number} $$")
            expect(result.exit_code == 128 + number, f"signal {number} is told as {result.exit_code}")
            expect(result.killed_by is None, f"signal {number} of its own is told as {result.killed_by}")


async def what_cannot_start_is_its_own_failure(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.out("echo text > /tmp/text; chmod 644 /tmp/text")
        for argv, code in ((("no-such-program",), 127), (("/no/such",), 127), (("/tmp/text",), 126), (("/tmp",), 126)):
            result = await sandbox.run(*argv)
            expect(result.exit_code == code, f"{argv[0]} ended with {result.exit_code}, not {code}")
            expect(argv[0].encode() in bytes(result.stderr), f"stderr does not name {argv[0]}: {result.stderr!r}")
        result = await sandbox.run("/bin/sh", "-c", ":", workdir="/no/folder")
        expect(result.exit_code in (126, 127), f"a missing workdir ended with {result.exit_code}")
        expect(b"/no/folder" in bytes(result.stderr), f"stderr does not name the folder: {result.stderr!r}")


async def words_arrive_unchanged(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        result = await sandbox.run("/bin/sh", "-c", "printf '%s\\0' \"$@\"", "sh", *ODD_WORDS)
        words = tuple(word.decode() for word in bytes(result.stdout).split(b"\0")[:-1])
        expect(words == ODD_WORDS, f"{ODD_WORDS} arrived as {words}")


async def long_words_arrive_whole(target: SandboxTarget) -> None:
    word = "x" * 100_000
    async with sandbox_fixture(target) as sandbox:
        script = 'printf "%s %s" "${#1}" "${#LONG}"'
        result = await sandbox.run("/bin/sh", "-c", script, "sh", word, env={"LONG": word})
        expect(bytes(result.stdout) == b"100000 100000", f"two of 100000 arrived as {bytes(result.stdout)!r}")
        result = await sandbox.run("/bin/sh", "-c", ":", "sh", "x" * 4_000_000)
        expect(result.exit_code == 126, f"a word longer than Linux allows ended with {result.exit_code}, not 126")


async def impossible_words_are_the_callers_mistake(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        for fields in (
            {"argv": ["echo", "a\0b"]},
            {"argv": ["env"], "env": {"A": "\0"}},
            {"argv": ["env"], "env": {"A=B": "c"}},
        ):
            error = await error_of(
                sandbox.provider.exec(sandbox.id, ExecRequest(**fields), request_id=uuid.uuid4().hex)
            )
            expect(isinstance(error, SandboxRequestError), f"{fields} raised {error!r}")
        expect(await sandbox.out("echo here") == "here", "the sandbox is broken after it")


async def stdin_arrives_whole(target: SandboxTarget) -> None:
    data = random.randbytes(3_000_001)
    async with sandbox_fixture(target) as sandbox:
        result = await sandbox.run("cat", stdin=data, head_bytes=4_000_000)
        expect(hashlib.sha256(bytes(result.stdout)).digest() == hashlib.sha256(data).digest(), "stdin came out changed")
        result = await sandbox.run("cat", timeout_s=10)
        expect(result.ok and not bytes(result.stdout), f"without stdin, cat ended with {result}")
        result = await sandbox.run("true", stdin=data)
        expect(result.ok, f"a command that leaves its stdin unread ended with {result}")


async def environment_is_what_was_asked(target: SandboxTarget) -> None:
    of_sandbox, added = {"ONE": "1", "LINES_": "a\nb=c", "EMPTY": ""}, {"ONE": "2", "TWO": "ü"}
    async with sandbox_fixture(target, env=of_sandbox) as sandbox:
        result = await sandbox.run("env", "-0", env=added)
        environment = dict(line.decode().split("=", 1) for line in bytes(result.stdout).split(b"\0")[:-1])
        expected = {**DEFAULT_ENV, **target.image_env, **of_sandbox, **added}
        expect(environment == expected, f"{environment} is not {expected}")


async def hosts_environment_stays_out(target: SandboxTarget) -> None:
    with _canary() as value:
        async with sandbox_fixture(target) as sandbox:
            shell = await sandbox.shell()
            texts = [await shell.out("env"), await sandbox.out("env; cat /proc/[0-9]*/environ 2>/dev/null; true")]
            expect(not any(value in text for text in texts), "a variable of the host's can be read inside")


async def workdirs_are_obeyed(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, workdir="/tmp") as sandbox:
        expect(await sandbox.out("pwd") == "/tmp", "a command did not start in the sandbox's workdir")
        expect(await sandbox.out("pwd", workdir="/etc") == "/etc", "a command did not start in its own workdir")


async def commands_do_not_mix(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        script = 'cat; echo "$1" >&2; exit $1'
        results = await asyncio.gather(
            *(sandbox.run("/bin/sh", "-c", script, "sh", str(n), stdin=str(n).encode() * 1000) for n in range(24))
        )
        for number, result in enumerate(results):
            expect(result.exit_code == number, f"command {number} of 24 at once ended with {result.exit_code}")
            expect(bytes(result.stdout) == str(number).encode() * 1000, f"command {number} got another's input")
            expect(bytes(result.stderr) == b"%d\n" % number, f"command {number} has stderr {bytes(result.stderr)!r}")


async def requests_are_served_once(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        request = ExecRequest(argv=["/bin/sh", "-c", "echo x >> /tmp/once; sleep 0.2; wc -l < /tmp/once"])
        first, second = await asyncio.gather(
            *(sandbox.provider.exec(sandbox.id, request, request_id="same") for _ in range(2))
        )
        third = await sandbox.provider.exec(sandbox.id, request, request_id="same")
        expect(first == second == third, f"one request was answered {first}, {second} and {third}")
        expect(await sandbox.out("wc -l < /tmp/once") == "1", "a request that was repeated ran again")
        spec = SandboxSpec(image=target.image)
        handles = [await sandbox.provider.create(spec, request_id="one") for _ in range(2)]
        expect(handles[0] == handles[1], "a repeated create made another sandbox")
        expect(len(sandbox.provider.live()) == 2, f"{len(sandbox.provider.live())} sandboxes live, not 2")


async def cancelled_commands_are_killed(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        task = asyncio.ensure_future(
            sandbox.sh(f"trap '' TERM INT; (sleep {sandbox.mark} &) ; sleep {sandbox.mark}; sleep 60")
        )
        await sandbox.wait_for_process()
        task.cancel()
        await asyncio.wait([task])
        expect(task.cancelled(), "a cancelled command gave an answer")
        await sandbox.expect_gone("a command whose caller went away")
        for ticks in range(8):
            starting = [asyncio.ensure_future(sandbox.sh(f"sleep {sandbox.mark}")) for _ in range(2)]
            for _ in range(ticks):
                await asyncio.sleep(0)
            for command in starting:
                command.cancel()
            await asyncio.wait(starting)
        await asyncio.sleep(0.1)
        await sandbox.expect_gone("a command whose caller went away while it started")
        expect(await sandbox.out("echo here") == "here", "the sandbox is broken after it")


@contextmanager
def _canary() -> Iterator[str]:
    value = f"canary-{uuid.uuid4().hex}"
    os.environ[CANARY] = value
    try:
        yield value
    finally:
        del os.environ[CANARY]


SUITE = [
    Behaviour("a command's exit code is told exactly", exit_codes_are_exact),
    Behaviour("a signal's exit code is 128 and its number", signals_are_128_plus),
    Behaviour("what can't be started is 126 or 127, and says why", what_cannot_start_is_its_own_failure),
    Behaviour("a command's words arrive unchanged", words_arrive_unchanged),
    Behaviour("100 kB of words and environment arrive, too much is 126", long_words_arrive_whole),
    Behaviour("words that no program can get are the caller's mistake", impossible_words_are_the_callers_mistake),
    Behaviour("stdin arrives whole, and ends", stdin_arrives_whole),
    Behaviour("the environment is the defaults and what was asked for", environment_is_what_was_asked),
    Behaviour("nothing of the host's environment is inside", hosts_environment_stays_out),
    Behaviour("commands start in their workdir", workdirs_are_obeyed),
    Behaviour("24 commands at once each get their own answer", commands_do_not_mix),
    Behaviour("a repeated request is served once", requests_are_served_once),
    Behaviour("a cancelled command is killed with all it started", cancelled_commands_are_killed),
]
