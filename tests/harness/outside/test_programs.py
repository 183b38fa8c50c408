"""A program outside: what it can ask for and know, how it ends, and that nothing of it is left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.harness.outside.scripted import KEY, AskedModel, MemoryWorkspace, Outside, ScriptedOutside
from tests.support.processes import gone

from paddock.errors import ConfigError, InfraError, LeakError
from paddock.harness import ExecOutput, RunLimits, Task
from paddock.sandbox import BudgetExceeded
from paddock.sandbox.failures import SandboxError

TELL = "ended['text'] = json.dumps(seen)"
BABY = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
FILED = "import os; bridge.write('pids', f'{os.getpid()} {child.pid}'.encode())\n"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
HANG = "import time; time.sleep(600)\n"


async def seen(outside: Outside, code: str, workspace: MemoryWorkspace | None = None) -> object:
    """What the code put in `seen`."""
    left = await outside.run(f"import json\n{code}\n{TELL}", workspace=workspace)
    assert left.detail is not None
    return json.loads(left.detail)


async def family(workspace: MemoryWorkspace) -> list[psutil.Process]:
    """The processes that it has told of."""
    async with asyncio.timeout(60):
        while "pids" not in workspace.files:
            await asyncio.sleep(0.02)
    return [psutil.Process(int(pid)) for pid in workspace.files["pids"].split()]


async def test_its_tools_act_on_the_workspace_and_files_errors_are_its_own(outside: Outside) -> None:
    space = MemoryWorkspace(
        lambda argv: ExecOutput(124, b"half", timed_out=True) if "slow" in argv[-1] else ExecOutput(3, b"\xff!")
    )
    code = """
seen = [bridge.exec("ls -l", timeout_s=2.5, env={"A": "1"}), bridge.exec(argv=["cat"], stdin="in", cwd="/tmp")]
seen += [bridge.exec("slow")]
bridge.write("a", b"\\x00\\xff")
seen += [list(bridge.read("a"))]
for act in (lambda: bridge.read("b"), lambda: bridge.exec("a\\0b"), lambda: bridge.exec(argv=["a", 5])):
    try:
        act()
    except (FileNotFoundError, ValueError, TypeError) as error:
        seen += [type(error).__name__]
bridge.exec("half \\ud800 pair")
"""
    ran = {"output": "�!", "exit_code": 3, "timed_out": False, "refused": None}
    slow = {"output": "half", "exit_code": 124, "timed_out": True, "refused": None}
    assert await seen(outside, code, space) == [
        ran,
        ran,
        slow,
        [0, 255],
        "FileNotFoundError",
        "ValueError",
        "TypeError",
    ]
    assert space.ran[:2] == [
        (["bash", "-c", "ls -l"], {"A": "1"}, 2.5, b""),
        (["env", "-C", "/tmp", "cat"], {}, None, b"in"),
    ]
    assert space.ran[-1][0] == ["bash", "-c", "half ? pair"]


async def test_shells_are_kept_apart_say_all_that_they_know_and_are_closed_with_the_program(outside: Outside) -> None:
    space = MemoryWorkspace()
    code = """
one, two = bridge.shell(), bridge.shell()
seen = [one.run("a", timeout_s=3.0), two.run("b", wait_s=0.5), two.poll(wait_s=1.0), two.type("x"), two.interrupt()]
seen = [seen[0], *(each["exit_code"] for each in seen[1:])]
one.close()
"""
    first = {"output": "run a 3.0 None", "exit_code": 0, "workdir": "/testbed/sub", "timed_out": False}
    assert await seen(outside, code, space) == [{**first, "refused": None, "closed": False}, None, None, None, 130]
    assert [shell.told for shell in space.shells] == [
        ["run a 3.0 None", "close"],
        ["run b None 0.5", "poll 1.0", "type x 0.0", "interrupt", "close"],
    ]


async def test_many_calls_are_answered_at_once_each_to_whom_it_was_asked(outside: Outside) -> None:
    space = MemoryWorkspace()
    space.held.clear()

    async def release() -> None:
        async with asyncio.timeout(60):
            while space.at_once < 8:
                await asyncio.sleep(0.01)
        space.held.set()

    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    seen = [answer["output"] for answer in pool.map(bridge.exec, map(str, range(8)))]
"""
    told, _ = await asyncio.gather(seen(outside, code, space), release())
    assert told == [str(number) for number in range(8)]
    assert space.most_at_once == 8


async def test_it_knows_the_task_and_its_endpoint_and_nothing_of_ours(outside: Outside) -> None:
    code = """
import os, sys
seen = {"env": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(), "files": os.listdir(), "start": start}
seen["fds"] = len(os.listdir("/proc/self/fd"))
"""
    told = await seen(outside, code)
    assert isinstance(told, dict)
    home = told["cwd"]
    assert told["env"].pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"
    assert told["env"] == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": home,
        "TMPDIR": home,
        "VISIBLE": "yes",
        "MORE": "more",
    }
    assert told["files"] == []
    assert KEY not in json.dumps([told["env"], told["argv"]])
    assert "..." not in told["start"]["endpoint"]["api_key"]
    assert told["start"]["endpoint"]["base_url"].endswith("/v1")
    assert (told["start"]["prompt"], told["start"]["workdir"]) == ("Fix it.", "/testbed")


async def test_what_it_prints_disturbs_nothing_and_is_told_when_it_fails(outside: Outside) -> None:
    noise = (
        "import os, sys\nfor _ in range(3000): print('{\"id\": 1, \"ok\": {}}' * 9)\nos.system('echo from a child')\n"
    )
    assert await seen(outside, f"{noise}seen = bridge.exec('true')['exit_code']") == 0
    with pytest.raises(InfraError, match=r"exited with 7 after 1 calls of its model: [^$]*last words \.\.\.$") as error:
        await outside.run(f"{noise}sys.stderr.write('last words {KEY}'); sys.stderr.flush(); os._exit(7)")
    assert error.value.kind == "program_failed"
    assert KEY not in str(error.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os._exit(0)", "exited with 1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exited with 137"),
        ("raise RuntimeError('it broke')", "it broke"),
        ("def drive(", "SyntaxError"),
        ("import os, threading; threading.Timer(0.1, os._exit, [3]).start(); bridge.exec('waits')", "exited with 3"),
        ("bridge._channel.sendall(b'no json\\n'); bridge.exec('x')", "no JSON"),
        ("bridge._channel.sendall(b'[]\\n'); bridge.exec('x')", "no object"),
        ("bridge._channel.sendall(b'{\"op\": \"fly\"}\\n'); bridge.exec('x')", "no 'fly'"),
        ("bridge._channel.sendall(b'{\"op\": \"read\"}\\n'); bridge.exec('x')", "Field required"),
        ("bridge._ask('shell_close', shell=4)", "no shell 4"),
        ('bridge._channel.sendall(b\'{"op": "en\'); import os; os._exit(2)', "exited with 2"),
    ],
)
async def test_a_program_that_dies_or_babbles_has_failed(outside: Outside, code: str, words: str) -> None:
    space = MemoryWorkspace()
    if "waits" in code:
        space.held.clear()
    with pytest.raises(InfraError, match=words):
        await outside.run(code, workspace=space)
    assert space.at_once == 0


@pytest.mark.parametrize(
    ("told", "ended"),
    [
        ("finished", "finished"),
        ("gave_up", "finished"),
        ("turn_limit", "turn_limit"),
        ("time_limit", "time_limit"),
    ],
)
async def test_how_it_ends_is_how_the_run_ends(outside: Outside, told: str, ended: str) -> None:
    left = await outside.run(f"ended = {{'ended': '{told}', 'text': 'so it is'}}", model=AskedModel(2))
    assert (left.ended, left.turns, left.final, left.detail) == (ended, 2, "turn 1", "so it is")
    assert [step.turn_id for step in outside.steps] == ["t0", "t1"]


async def test_other_ends_are_those_of_every_program(outside: Outside) -> None:
    with pytest.raises(InfraError, match="asked no model"):
        await outside.run("pass", model=AskedModel(0))
    with pytest.raises(ConfigError, match=r"scripted 1\.0: mine\.yaml is wrong"):
        await outside.run("ended = {'ended': 'config', 'text': 'mine.yaml is wrong'}")
    assert (await outside.run("raise ValueError", model=AskedModel(overflowed=True))).ended == "context_limit"
    for code in ("raise ValueError", "ended = {'ended': 'gave_up', 'text': None}"):
        assert (await outside.run(code, model=AskedModel(finish_reason="length"))).ended == "output_limit"


@pytest.mark.parametrize("error", [SandboxError("it died"), BudgetExceeded("memory", "all of it"), LeakError("canary")])
async def test_a_failure_of_the_workspace_ends_the_run_and_is_no_tools_text(outside: Outside, error: Exception) -> None:
    def fail(_argv: object) -> ExecOutput:
        raise error

    space = MemoryWorkspace(fail)
    code = f"{BABY}{FILED}{STUBBORN}try:\n    bridge.exec('x')\nfinally:\n    bridge.write('told', b'')\n"
    with pytest.raises(type(error), match=str(error)):
        await outside.run(code, workspace=space)
    assert "told" not in space.files


@pytest.mark.slow
async def test_one_that_hangs_is_killed_with_all_it_started_when_its_time_is_over(outside: Outside) -> None:
    space = MemoryWorkspace()
    run = asyncio.create_task(outside.run(f"{STUBBORN}{BABY}{FILED}{HANG}", workspace=space, time_s=1.0))
    left = await run
    assert (left.ended, left.detail) == ("time_limit", "1 s")
    if "pids" in space.files:  # else it was not that far in its second
        assert not any(psutil.pid_exists(int(pid)) for pid in space.files["pids"].split())


async def test_a_cancelled_run_leaves_nothing(outside: Outside) -> None:
    space = MemoryWorkspace()
    space.held.clear()
    run = asyncio.create_task(outside.run(f"{BABY}{FILED}bridge.exec('waits')", workspace=space))
    processes = await family(space)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert gone(processes, within_s=0)
    assert space.at_once == 0


async def test_a_killed_keeper_leaves_nothing(outside: Outside) -> None:
    space = MemoryWorkspace()
    run = asyncio.create_task(outside.run(f"{BABY}{FILED}{HANG}", workspace=space))
    processes = await family(space)
    keeper = processes[0].parent()
    assert keeper is not None
    keeper.kill()
    with pytest.raises(InfraError, match="exited with 137"):
        await run
    assert gone(processes, within_s=60)


async def test_what_it_left_is_kept_without_the_key_when_it_ends_and_when_it_is_ended(outside: Outside) -> None:
    keep = f"open('kept.json', 'w').write('{KEY}!')\n"
    await outside.run(keep)
    assert outside.artifacts == {"kept.json": b"...!"}
    space = MemoryWorkspace()
    run = asyncio.create_task(outside.run(f"{keep}{BABY}{FILED}{HANG}", workspace=space))
    await family(space)
    run.cancel()
    await asyncio.wait([run])
    assert outside.artifacts == {"kept.json": b"...!"}


async def test_one_that_is_not_there_is_an_error_of_the_machine(outside: Outside, tmp_path: Path) -> None:
    (tmp_path / "bin" / "python").unlink()
    with pytest.raises(InfraError, match=r"exited with 127 .*can't start"):
        await outside.run("pass")
    with pytest.raises(ConfigError, match="nobody said where"):
        await ScriptedOutside("").run(Task(prompt=""), MemoryWorkspace(), AskedModel(), RunLimits(), print)


@pytest.mark.slow
def test_it_dies_with_us(tmp_path: Path) -> None:
    """Killed, so that nothing of ours could clean up."""
    code = """
import asyncio, sys
from pathlib import Path
from paddock.harness.outside.process import OutsideProcess

async def main():
    async with OutsideProcess([sys.executable, "-c", "import time; time.sleep(600)"], {}) as process:
        print(process.pid, process.home, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout is not None
        pid, home = us.stdout.readline().split()
        processes = [keeper := psutil.Process(int(pid)), *keeper.children(recursive=True)]
        os.kill(us.pid, signal.SIGKILL)
    assert gone(processes, within_s=60)
    assert not Path(home).exists()
