"""Persistent shells: state is kept, ends are told exactly, and nothing that a line does takes the shell away."""

import asyncio
import os
import time

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import (
    SandboxFixture,
    SandboxTarget,
    ShellFixture,
    error_of,
    eventually,
    sandbox_fixture,
)
from paddock.sandbox import SandboxRequestError, ShellResult

LOOPS = {
    "a loop": "while :; do :; done",
    "a loop of sleeps": "while :; do sleep 1; done",
    "a sleep and what follows": "sleep 60; echo after; sleep 60",
    "a pipe": "sleep 60 | cat",
    "a command substitution": "echo $(sleep 60)",
    "a wait for input": "read never",
}
DEAF = {
    "a deaf child": "sh -c \"trap '' INT TERM HUP QUIT; sleep 60; sleep 60\"",
    "a deaf child in the background": "sh -c \"trap '' INT TERM; sleep 60\" & wait",
}


async def state_is_kept(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, env={"GIVEN": "sandbox"}) as sandbox:
        shell = await sandbox.shell(workdir="/etc", env={"MORE": "shell"})
        result = await shell.run("echo $GIVEN $MORE")
        expect(bytes(result.output) == b"sandbox shell\n", f"its environment is {bytes(result.output)!r}")
        expect(result.workdir == "/etc", f"it starts in {result.workdir}")
        result = await shell.run("cd /tmp && export A='1 2' && b=3 && f() { echo f-$1; } && umask 077")
        expect((result.exit_code, result.workdir) == (0, "/tmp"), f"after cd: {result}")
        expect(await shell.out("echo $A $b; f x; umask; pwd") == "1 2 3\nf-x\n0077\n/tmp", "state is not kept")
        expect(await sandbox.out("pwd; echo $A") == "/", "a shell's state is seen by other commands")


async def ends_are_exact(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        for line, code in (
            ("true", 0),
            ("false", 1),
            ("(exit 77)", 77),
            ("no-such-program", 127),
            ("sh -c 'kill -9 $$'", 137),
        ):
            result = await shell.run(line)
            expect(result.exit_code == code, f"{line} ended with {result.exit_code}, not {code}")
            expect(not result.running and not result.closed, f"{line}: {result}")
            left = await shell.out("echo $?")
            expect(left == str(code), f"the line after {line} finds a $? of {left}")
        expect(await shell.out("(exit 5); echo $?") == "5", "$? is not the last command's")
        result = await shell.run("mkdir -p '/tmp/a b\n\\ü' && cd '/tmp/a b\n\\ü'")
        expect(result.workdir == "/tmp/a b\n\\ü", f"the folder is told as {result.workdir!r}")
        result = await shell.run("cd /; rmdir '/tmp/a b\n\\ü'")
        expect(result.workdir == "/", f"the folder is told as {result.workdir!r}")


async def odd_text_is_run_as_it_stands(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        for line, expected in (
            ("cat <<EOF\na $((1+1)) 'b'\nEOF", "a 2 'b'"),
            ("cat <<'E'\n$HOME `id` \\ \"\nE", '$HOME `id` \\ "'),
            ("printf '%s\\n' \"it's\" 'a\"b'", "it's\na\"b"),
            ("echo a; # echo b\necho c", "a\nc"),
            ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2"),
            ("echo ü€😀\\\n!", "ü€😀!"),
            ("", ""),
            ("  # only a comment", ""),
            ("echo one &&\necho two", "one\ntwo"),
        ):
            expect(await shell.out(line) == expected, f"{line!r} does not say {expected!r}")


async def syntax_errors_leave_it_alive(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.out("cd /tmp; a=1")
        for line in ("echo (", "if true; then", "echo 'open", "cat <<EOF\nno end", "done", "echo $("):
            result = await shell.run(line, timeout_s=20)
            expect(not result.running and result.killed_by is None, f"{line!r}: {result}")
            expect(await shell.out("echo $a $PWD") == "1 /tmp", f"after {line!r} its state is lost")


async def long_lines_are_run(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        text = "0123456789" * 100_000
        expect(await shell.out(f"cat > /tmp/long <<'EOF'\n{text}\nEOF\nwc -c < /tmp/long") == "1000001", "1 MB was cut")


async def interrupts_end_lines(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.out("cd /tmp; keep=yes")
        for name, line in LOOPS.items():
            result = await shell.run(line, wait_s=0.3)
            expect(result.running, f"{name} does not run: {result}")
            result = await shell.interrupt()
            expect(not result.running and result.exit_code not in (0, None), f"^C on {name}: {result}")
            expect(b"after" not in bytes(result.output), f"^C on {name} went on with the rest of the line")
            await _alive(shell, f"^C on {name}")


async def interrupts_leave_the_shell_to_the_deaf(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.out("cd /tmp; keep=yes")
        await shell.run(DEAF["a deaf child"], wait_s=0.3)
        result = await shell.interrupt()
        expect(result.running and not result.closed, f"^C on a deaf child: {result}")
        error = await error_of(shell.run("echo"))
        expect(isinstance(error, SandboxRequestError), f"a line beside a running one: {error!r}")
        second = await sandbox.shell()
        await second.out(
            "for p in /proc/[0-9]*; do grep -q 'trap .. INT' $p/cmdline && kill -9 ${p#/proc/}; done; true"
        )
        result = await shell.poll(5)
        expect(not result.running, f"a killed child's line goes on: {result}")
        await _alive(shell, "the end of a deaf child")


async def time_limits_end_lines(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.out("cd /tmp; keep=yes")
        for name, line in (LOOPS | DEAF).items():
            started = time.monotonic()
            result = await shell.run(line.replace("60", sandbox.mark), timeout_s=0.3)
            took = time.monotonic() - started
            expect(result.killed_by == "timeout" and not result.running, f"a time limit on {name}: {result}")
            expect(took < 5, f"a time limit on {name} took {took:.1f} s")
            await sandbox.expect_gone(name)
            await _alive(shell, f"a time limit on {name}")


async def servers_of_earlier_lines_live(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.run(f"sleep {sandbox.mark} >/dev/null 2>&1 &")
        await shell.run(f"(sh -c 'sleep {sandbox.mark} & :' >/dev/null 2>&1 &)")
        await eventually(lambda: len(sandbox.processes()) == 2, "two servers are not up")
        await shell.run("sleep 60", timeout_s=0.3)
        expect(len(sandbox.processes()) == 2, "a time limit killed what an earlier line had left in the background")
        await shell.run("sleep 60; echo after", wait_s=0.2)
        await shell.interrupt()
        expect(len(sandbox.processes()) == 2, "^C killed what an earlier line had left in the background")


async def what_is_typed_is_read(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        result = await shell.run("read a; read b; echo $b-$a", wait_s=0.3)
        expect(result.running and not bytes(result.output), f"a line that waits for input: {result}")
        await shell.type(b"one\n")
        await shell.type("zwei ü\n".encode())
        result = await shell.poll(5)
        expect(bytes(result.output) == "zwei ü-one\n".encode(), f"what was typed came as {bytes(result.output)!r}")
        await shell.run("cat", wait_s=0.2)
        await shell.type(b"text\n\x04")
        result = await shell.poll(5)
        expect((result.running, bytes(result.output)) == (False, b"text\n"), f"^D did not end cat: {result}")


async def running_lines_are_polled(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        result = await shell.run("echo one; sleep 1; echo two", wait_s=0.3)
        expect((result.running, bytes(result.output)) == (True, b"one\n"), f"so far: {result}")
        error = await error_of(shell.run("echo other"))
        expect(isinstance(error, SandboxRequestError), f"a second line at the same time: {error!r}")
        result = await shell.poll(5)
        expect((result.exit_code, bytes(result.output)) == (0, b"two\n"), f"at its end: {result}")


async def it_is_a_terminal(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell(rows=31, columns=97)
        await shell.out("test -t 0 && test -t 1 && test -t 2")
        await sandbox.needs("stty")
        expect(await shell.out("stty size") == "31 97", "the terminal has not the size that was asked for")


async def output_cannot_pass_for_an_end(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.run("printf '2\\0000\\0/\\0'; sleep 1; printf '3\\0000\\0/\\0'", wait_s=0.2)
        result = await shell.run("echo", wait_s=0) if not (await shell.poll(0)).running else await shell.poll(5)
        expect(result.exit_code == 0, f"it ended as {result}")
        result = await shell.run("exec 8>&- 9>&-; true", timeout_s=0.5)
        await _answers(shell)
        result = await shell.run("trap 'echo trapped' EXIT DEBUG 2>/dev/null; set -e; set -u; false", timeout_s=0.5)
        await _answers(shell)


async def exit_closes_it(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.out("cd /tmp; lost=1")
        result = await shell.run("echo bye; exit 7", timeout_s=20)
        expect((result.closed, result.exit_code) == (True, 7), f"after exit 7: {result}")
        expect(bytes(result.output).startswith(b"bye\n"), f"what it said last came as {bytes(result.output)!r}")
        expect(await shell.out("echo -$lost-") == "--", "the next line did not get a shell of its own")
        result = await shell.run("kill -9 $$", timeout_s=20)
        expect((result.closed, result.exit_code) == (True, 137), f"after kill -9 of itself: {result}")


async def many_at_once(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shells = await asyncio.gather(*(sandbox.shell() for _ in range(12)))
        await asyncio.gather(
            *(shell.out(f"n={i}; cd /proc/self/fd/.. 2>/dev/null; :") for i, shell in enumerate(shells))
        )
        outputs = await asyncio.gather(*(shell.out("echo $n; sleep 0.1; echo $n") for shell in shells))
        expected = [f"{i}\n{i}" for i in range(12)]
        expect(outputs == expected, f"12 shells at once say {outputs}")


async def closing_kills_what_runs(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.run(
            f"sleep {sandbox.mark} & (setsid sleep {sandbox.mark} &) ; trap '' HUP; sleep {sandbox.mark}", wait_s=0.2
        )
        await sandbox.wait_for_process()
        await shell.close()
        await sandbox.expect_gone("a process of a closed shell")
        error = await error_of(shell.run("echo"))
        expect(isinstance(error, SandboxRequestError), f"a line in a closed shell: {error!r}")


async def any_shell_will_do(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.sh('rm -f "$(command -v bash)"; true')
        await sandbox.sh('rm -f "$(command -v bash)"; true')
        shell = await sandbox.shell()
        expect(await shell.out('echo "-$BASH_VERSION-"') == "--", "there is still a bash")
        await _use(sandbox, shell)


async def _use(sandbox: SandboxFixture, shell: ShellFixture) -> None:
    """What has to work in every shell."""
    await shell.out("cd /tmp; keep=yes")
    result = await shell.run("(exit 3)")
    expect((result.exit_code, result.workdir) == (3, "/tmp"), f"{result}")
    expect(await shell.out("cat <<EOF\nit's $keep \\\\ ü\nEOF") == "it's yes \\ ü", "a here-document came out changed")
    await _ended(await shell.run("while :; do :; done", timeout_s=0.3), "timeout")
    await _alive(shell, "a time limit")
    await _ended(await shell.run(f"trap '' INT; sleep {sandbox.mark}", timeout_s=0.3), "timeout")
    await shell.run("trap - INT")
    await _alive(shell, "a time limit on a deaf line")
    result = await shell.run("echo (", timeout_s=20)
    expect(not result.running, f"a syntax error: {result}")
    result = await shell.run("sleep 60; echo after", wait_s=0.3)
    result = await shell.interrupt()
    expect(not result.running, f"^C: {result}")
    expect(not (await shell.run("exit 4", timeout_s=20)).running, "exit did not end the shell")


async def _ended(result: ShellResult, why: str) -> None:
    expect(result.killed_by == why and not result.running, f"{result}")


async def _alive(shell: ShellFixture, after: str) -> None:
    result = await shell.run("echo $keep", timeout_s=20)
    # The shell may tell first of a job that was killed.
    text = bytes(result.output).splitlines()[-1:]
    ended = (result.exit_code, text, os.path.basename(result.workdir), result.closed)  # noqa: PTH119 - inside
    expect(ended == (0, [b"yes"], "tmp", False), f"after {after}: {result}")


async def _answers(shell: ShellFixture) -> None:
    """It, or the shell that took its place, does as it is told."""
    for _ in range(2):
        result = await shell.run("command echo here", timeout_s=10)
        if b"here" in bytes(result.output) and result.exit_code == 0:
            return
    raise AssertionError(f"the shell does not come back: {result}")


SUITE = [
    Behaviour("a shell keeps its folder, variables and functions", state_is_kept),
    Behaviour("a line's exit code and folder are told exactly", ends_are_exact),
    Behaviour("any text is run as it stands", odd_text_is_run_as_it_stands),
    Behaviour("syntax errors leave the shell alive", syntax_errors_leave_it_alive),
    Behaviour("a line may be 1 MB long", long_lines_are_run),
    Behaviour("^C ends a line, and leaves the shell alive", interrupts_end_lines),
    Behaviour("^C on what ignores it leaves the shell alive and busy", interrupts_leave_the_shell_to_the_deaf),
    Behaviour("a time limit kills a line's whole tree, and leaves the shell alive", time_limits_end_lines),
    Behaviour("^C and time limits leave the servers of earlier lines alone", servers_of_earlier_lines_live),
    Behaviour("what is typed is read by the line that runs", what_is_typed_is_read),
    Behaviour("a running line is polled, and no other is run beside it", running_lines_are_polled),
    Behaviour("a shell is on a terminal of the size asked for", it_is_a_terminal),
    Behaviour("nothing that a line does passes for its end", output_cannot_pass_for_an_end),
    Behaviour("exit closes a shell, and the next line opens another", exit_closes_it),
    Behaviour("12 shells at once do not mix", many_at_once),
    Behaviour("closing a shell kills all that runs in it", closing_kills_what_runs),
    Behaviour("where there is no bash, sh does", any_shell_will_do),
]
