"""Claims about what a policy can do to its own sandbox: it is no failure of the machine's, or in doubt and so once at
most; and what the machine does to it never becomes a reward."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import few

from paddock.sandbox import SandboxError, SandboxGone
from paddock.types import Failure, Rollout, Stamp

pytestmark = pytest.mark.sandbox
FIX = "sed -i 's/a - b/a + b/' calc.py"
LATER = "(sleep 0.2; {}) >/dev/null 2>&1 &"
HOLD = "import os\\nheld = os.memfd_create('m')\\nwhile True: os.write(held, bytes(1 << 20))"
OPEN = """import os
try:
    while True:
        os.open('/dev/null', os.O_RDONLY)
except OSError:
    __import__('time').sleep(60)
"""
LIMIT = """import os, resource
while True:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                resource.prlimit(int(name), resource.RLIMIT_NOFILE, (0, 0))
            except OSError:
                pass
"""
"""Takes all descriptors from whatever starts."""
OWN: dict[str, tuple[list[str], dict[str, Any]]] = {
    "kills everything": ([LATER.format("kill -9 -1"), "sleep 30", "kill -9 -1", "echo on"], {}),
    "kills its first process": (["kill -9 1; kill -SEGV 1; kill -TERM 1", "echo on"], {}),
    "stops everything": ([LATER.format("kill -STOP -1"), "sleep 30", "kill -STOP $$", "echo on"], {}),
    "stops commands before they start": (
        [LATER.format("while :; do kill -STOP -1; done"), "sleep 0.5", *["echo on"] * 4],
        {},
    ),
    "forks without end": (["f() { f | f & }; f; sleep 1", "echo on"], {"limits": {"pids": 64, "memory_mib": 512}}),
    "takes memory of processes": (["python3 -c \"x = b'x' * (600 << 20)\"", "echo on"], {}),
    "takes memory of none": (
        [f'printf "{HOLD}" > /tmp/hold.py; python3 /tmp/hold.py', "echo on"],
        {"limits": {"memory_mib": 128}},
    ),
    "fills the disk": (
        ["for n in 1 2 3 4; do head -c 1000000 /dev/zero > /var/tmp/$n; sleep 0.3; done", "sleep 5"],
        {"limits": {"disk_mib": 2, "memory_mib": 512}},
    ),
    "makes files without end": (
        ["i=0; while :; do : > /var/tmp/$i; i=$((i + 1)); done"],
        {"limits": {"disk_files": 300, "memory_mib": 512}},
    ),
    "opens without end": ([f'(python3 -c "{OPEN}" &) >/dev/null 2>&1; sleep 0.5', "echo on"], {}),
    "holds its shell open": (
        [
            "cp /bin/sh /tmp/sh; (exec 3<>/tmp/sh; sleep 60) >/dev/null 2>&1 & sleep 0.2; mv /tmp/sh /usr/bin/sh",
            "echo no",
        ],
        {},
    ),
    "removes its shell": (["rm -f /bin/sh /usr/bin/sh", "echo never"], {}),
}
QUICK = ["kills everything", "stops everything", "takes memory of processes", "fills the disk", "removes its shell"]
Act = Callable[[Any, Any], None]


def stamp(doubts: int | None = None) -> Stamp:
    return Stamp(run_id="r", group_id=random.randrange(10**9), member=0, attempt=0, doubts=doubts)


async def played(standing: Any, commands: list[str], **block: Any) -> Rollout:
    script = {"harness_config": {"commands": [FIX, *commands], "timeout_s": 2.0}}
    async with standing(**script, **block) as stand:
        rollout: Rollout = await stand.run(stamp=stamp())
    return rollout


@pytest.mark.slow
@pytest.mark.parametrize("way", few(OWN, QUICK, pytest.mark.long))
async def test_what_it_does_to_its_own_sandbox_is_graded(standing: Any, way: str) -> None:
    commands, block = OWN[way]
    rollout = await played(standing, commands, **block)
    assert (rollout.outcome in ("completed", "truncated"), rollout.reward) == (True, 1.0), rollout.failure


async def test_a_shell_that_it_has_removed_under_itself_is_its_own_doing(standing: Any) -> None:
    commands = ["rm -f /bin/sh /usr/bin/sh", "exit", "echo never"]
    script = {"harness_config": {"commands": [FIX, *commands], "shell": True}}
    async with standing(**script) as stand:
        rollout = await stand.run(stamp=stamp())
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), rollout.failure


@pytest.mark.parametrize(("doubts", "outcome", "reward"), [(None, "infra", None), (1, "completed", 1.0)])
async def test_what_may_be_its_own_doing_is_in_doubt(
    standing: Any, doubts: int | None, outcome: str, reward: float | None
) -> None:
    script = {"harness_config": {"commands": [FIX, f'(python3 -c "{LIMIT}" &) >/dev/null 2>&1', *["echo on"] * 60]}}
    async with standing(**script) as stand:
        rollout = await stand.run(stamp=stamp(doubts))
    assert (rollout.outcome, rollout.reward) == (outcome, reward), rollout.failure
    assert rollout.failure is None or rollout.failure.doubtful


class StruckStand:
    """A stand whose sandbox something is done to from outside, in its second command."""

    def __init__(self, standing: Any, act: Act) -> None:
        self._standing = standing
        self._act = act

    async def run(self, doubts: int | None = None, *, fix: str = FIX) -> tuple[Rollout, list[str]]:
        script = {"harness_config": {"commands": [fix, "echo on", "echo on"]}}
        async with self._standing(**script) as stand:
            provider = stand.agent._provider.value
            inner, n = provider.exec, 0

            async def exec(sandbox_id: str, *words: Any, **named: Any) -> Any:
                nonlocal n
                n += 1
                if n == 2:
                    self._act(provider, provider._sandboxes[sandbox_id])
                return await inner(sandbox_id, *words, **named)

            provider.exec = exec
            return await stand.run(stamp=stamp(doubts)), stand.world.judged


def kill_keeper(_provider: Any, sandbox: Any) -> None:
    os.kill(sandbox.keeper._keeper.pid, signal.SIGKILL)


def break_keeper(_provider: Any, sandbox: Any) -> None:
    os.kill(sandbox.keeper._keeper.pid, signal.SIGSEGV)


def kill_first(_provider: Any, sandbox: Any) -> None:
    keeper = sandbox.keeper._keeper.pid
    (first,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    os.kill(int(first), signal.SIGKILL)


def lack_disk(_provider: Any, sandbox: Any) -> None:
    sandbox.give_up(SandboxError("the disk is full", kind="host_disk"))


@pytest.mark.parametrize("doubts", few([None, 1], [1]))
@pytest.mark.parametrize("act", [kill_keeper, kill_first, lack_disk])
async def test_what_the_machine_does_stays_infra(standing: Any, act: Act, doubts: int | None) -> None:
    rollout, judged = await StruckStand(standing, act).run(doubts)
    assert (rollout.outcome, rollout.reward, judged) == ("infra", None, [])
    assert rollout.failure is not None
    assert (rollout.failure.retryable, rollout.failure.doubtful) == (True, False), rollout.failure


async def test_an_end_in_doubt_is_infra_once_and_counts_when_it_comes_again(standing: Any) -> None:
    first, judged = await StruckStand(standing, break_keeper).run()
    assert (first.outcome, first.reward, judged) == ("infra", None, [])
    assert isinstance(first.failure, Failure) and first.failure.doubtful
    again, judged = await StruckStand(standing, break_keeper).run(1)
    assert (again.outcome, again.reward, len(judged)) == ("completed", 1.0, 1)
    assert again.response is not None
    assert (again.response["harness"]["ended"], "Segmentation" in again.response["harness"]["detail"]) == (
        "killed",
        True,
    )
    nothing, _ = await StruckStand(standing, break_keeper).run(1, fix="true")
    assert (nothing.outcome, nothing.reward) == ("completed", 0.0), nothing.failure


@pytest.mark.parametrize(("doubts", "outcome", "reward"), [(None, "infra", None), (1, "completed", 1.0)])
async def test_an_end_in_doubt_behind_the_last_command_counts_likewise(
    standing: Any, monkeypatch: pytest.MonkeyPatch, doubts: int | None, outcome: str, reward: float | None
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    async with standing("stub_harnesses:BrokenSandboxHarness") as stand:
        provider = stand.agent._provider.value
        inner = provider.patch

        async def patch(sandbox_id: str, *words: Any, **named: Any) -> Any:
            sandbox = provider._sandboxes[sandbox_id]
            if not sandbox.keeper.ended.done():
                break_keeper(provider, sandbox)
            return await inner(sandbox_id, *words, **named)

        provider.patch = patch
        rollout = await stand.run(stamp=stamp(doubts))
    assert (rollout.outcome, rollout.reward) == (outcome, reward), rollout.failure
    assert rollout.failure is None or (rollout.failure.doubtful, rollout.failure.stage) == (True, "sandbox")


async def test_doubt_of_the_verifiers_sandbox_is_not_the_policys(standing: Any) -> None:
    async with standing("null") as stand:

        async def verify(*_: Any) -> Any:
            raise SandboxGone("grading", "it hangs", doubtful=True)

        stand.world.verify = verify
        rollout = await stand.run(stamp=stamp())
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.doubtful) == ("sandbox_gone", False)
