"""Time limits: the whole tree of a command is killed, whatever it does to escape; nothing else is."""

import asyncio
import time

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import SandboxTarget, sandbox_fixture

LIMIT_S = 0.3
SLACK_S = 5.0
"""What a loaded machine may take to kill a tree."""


async def _killed(target: SandboxTarget, script: str, *, needs: str = "sleep") -> None:
    """`MARK` in the script stands for the sandbox's mark."""
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs(needs)
        started = time.monotonic()
        result = await sandbox.sh(script.replace("MARK", sandbox.mark), timeout_s=LIMIT_S)
        took = time.monotonic() - started
        expect(result.killed_by == "timeout", f"it ended with {result.exit_code}, killed by {result.killed_by}")
        expect(result.exit_code == 137, f"a killed command has exit code {result.exit_code}")
        expect(LIMIT_S <= took < LIMIT_S + SLACK_S, f"a limit of {LIMIT_S} s took {took:.1f} s")
        await sandbox.expect_gone("a process of a command past its time limit")
        expect(await sandbox.out("echo here") == "here", "the sandbox is broken after it")


async def plain_is_killed(target: SandboxTarget) -> None:
    await _killed(target, "echo before; sleep MARK; echo after")


async def deaf_is_killed(target: SandboxTarget) -> None:
    await _killed(target, "trap '' TERM INT HUP QUIT; while :; do sleep MARK; done")


async def double_forked_is_killed(target: SandboxTarget) -> None:
    await _killed(target, "(sh -c 'sleep MARK & :' &) ; (trap '' TERM HUP; sleep MARK &) ; sleep 60")


async def own_session_is_killed(target: SandboxTarget) -> None:
    script = "setsid sh -c \"trap '' TERM HUP; sleep MARK & sleep MARK\" </dev/null >/dev/null 2>&1 & sleep 60"
    await _killed(target, script, needs="setsid")


async def stopped_is_killed(target: SandboxTarget) -> None:
    await _killed(target, "sleep MARK & kill -STOP $!; kill -STOP $$; sleep MARK")


async def forking_is_killed(target: SandboxTarget) -> None:
    await _killed(target, "f() { sleep MARK & sleep 0.02; f & }; f; sleep 60")


async def held_pipe_does_not_hold_the_answer(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        started = time.monotonic()
        result = await sandbox.sh(f"sleep {sandbox.mark} & echo done; exit 3")
        took = time.monotonic() - started
        expect(took < SLACK_S, f"a child that holds the output open held the answer for {took:.1f} s")
        expect((result.exit_code, bytes(result.stdout)) == (3, b"done\n"), f"it ended as {result}")
        expect(sandbox.processes(), "a server that a command left in the background was killed")


async def limits_kill_nothing_else(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.sh(f"sleep {sandbox.mark} >/dev/null 2>&1 &")
        other = asyncio.ensure_future(sandbox.sh("sleep 1.5; echo whole"))
        shell = await sandbox.shell()
        await shell.out("cd /tmp")
        result = await sandbox.sh("sleep 60", timeout_s=LIMIT_S)
        expect(result.killed_by == "timeout", f"it ended as {result}")
        expect(bytes((await other).stdout) == b"whole\n", "one command's time limit ended another command")
        expect(len(sandbox.processes()) == 1, "one command's time limit ended an earlier command's server")
        expect(await shell.out("pwd") == "/tmp", "one command's time limit ended a shell")


async def output_before_the_limit_is_kept(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        result = await sandbox.sh("echo out; echo err >&2; sleep 60", timeout_s=1.0)
        streams = (bytes(result.stdout), bytes(result.stderr))
        expect(streams == (b"out\n", b"err\n"), f"of a killed command's output came {streams}")


SUITE = [
    Behaviour("a time limit kills a command, and says so", plain_is_killed),
    Behaviour("a time limit kills what ignores signals", deaf_is_killed),
    Behaviour("a time limit kills double-forked children", double_forked_is_killed),
    Behaviour("a time limit kills children in sessions of their own", own_session_is_killed),
    Behaviour("a time limit kills what was stopped", stopped_is_killed),
    Behaviour("a time limit kills what goes on forking", forking_is_killed),
    Behaviour("a child that holds the output open does not hold the answer", held_pipe_does_not_hold_the_answer),
    Behaviour("a time limit leaves other commands, servers and shells alone", limits_kill_nothing_else),
    Behaviour("what a command wrote before its time limit is kept", output_before_the_limit_is_kept),
]
