"""Claims about the verdicts of code, in real sandboxes: right programs are paid, cheaters are not, and no trace of one
is left to the next program."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError, InfraError, RowError
from paddock.resources_servers.code import CodeServer, make_rows
from paddock.resources_servers.code.server import CodeConfig
from paddock.sandbox import SandboxError, SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.types import Row, Verdict
from paddock.types.responses import make_response, message_item

IMAGE = "paddock/python:3.11"
EXAMPLE = Path(make_rows.__file__).with_name("data") / "example.jsonl"
DOUBLES: dict[str, Any] = {"inputs": ["4", "10", "7"], "outputs": ["8\n", "20\n", "14\n"]}
CALLS: dict[str, Any] = {
    "inputs": ["[3, 1, 2]", "[5]", "[]"],
    "outputs": ["[1, 2, 3]", "[5]", "[]"],
    "fn_name": "order",
}
LIMITS = {"cpu_s": 2, "wall_s": 6.0, "memory_mib": 256, "disk_mib": 32, "output_kib": 64}


def image_there() -> bool:
    settings = SandboxSettings()
    return ImageStore(settings.home, payload_id=settings.payload_id).has(IMAGE)


pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not image_there(), reason=f"no image {IMAGE} below PADDOCK_HOME (paddock images build)"),
]


@pytest.fixture
async def server() -> AsyncIterator[CodeServer]:
    server = CodeServer(CodeConfig.model_validate({"limits": LIMITS}), name="code", peers={})
    await server.start()
    yield server
    await server.stop()


def row_of(tests: dict[str, Any], language: str = "python") -> Row:
    task = {"verifier_metadata": {"unit_tests": tests, "language": language}}
    return Row(responses_create_params={"input": "?"}, task=task)


async def judge(server: CodeServer, program: str, tests: dict[str, Any] = DOUBLES, language: str = "python") -> Verdict:
    row = row_of(tests, language)
    response = make_response([message_item(f"So:\n```{language}\n{program}\n```\n")], {}, model="x")
    return await server.verify(server.read_task(row), row, response)


HONEST = [
    ("print(2 * int(input()))", DOUBLES),
    ("import sys\nsys.stdout.write(str(2 * int(sys.stdin.read())) + '\\n\\n')", DOUBLES),
    ("print(f'{2 * int(input()):.2f}')", DOUBLES),
    ("import asyncio, decimal, sqlite3, unittest, xml.dom\nprint(2 * int(input()))", DOUBLES),
    ("def main():\n    print(2 * int(input()))\nif __name__ == '__main__':\n    main()", DOUBLES),
    ("import sys\nprint('noise', file=sys.stderr)\nprint(2 * int(input()))\nsys.exit(0)", DOUBLES),
    ("import threading\nt = threading.Thread(target=lambda: print(2 * int(input())))\nt.start()\nt.join()", DOUBLES),
    ("import subprocess, sys\nprint(2 * int(subprocess.check_output(['cat'], stdin=sys.stdin)))", DOUBLES),
    ("open('notes', 'w').write('mine')\nprint(2 * int(input()))", DOUBLES),
    ("def order(numbers):\n    return sorted(numbers)", CALLS),
    (
        "class Solution:\n    def order(self, numbers: List[int]) -> List[int]:\n        return tuple(sorted(numbers))",
        CALLS,
    ),
    ("def order(numbers):\n    print('noise', [9])\n    heapify(numbers)\n    return sorted(numbers)", CALLS),
]
CHEATERS = [
    ("print(8)", DOUBLES, "wrong_output"),
    ("print(8)\nprint(20)\nprint(14)", DOUBLES, "wrong_output"),
    ("", DOUBLES, "no_program"),
    ("import sys\nsys.exit(0)", DOUBLES, "wrong_output"),
    ("import os\nos._exit(0)", DOUBLES, "wrong_output"),
    ("print(2 * int(input()))\nraise SystemExit(1)", DOUBLES, "runtime_error"),
    ("print(2 * int(input())", DOUBLES, "runtime_error"),
    ("import time\ntime.sleep(60)", DOUBLES, "time_limit"),
    ("while True:\n    pass", DOUBLES, "time_limit"),
    ("import os\nwhile True:\n    os.fork()", DOUBLES, None),
    ("import os\nos.kill(-1, 9)", DOUBLES, None),
    ("import os\nos.kill(os.getppid(), 9)", DOUBLES, None),
    ("x = bytearray(1 << 30)\nprint(len(x))", DOUBLES, None),
    ("x = []\nwhile True:\n    x.append(bytearray(b'x' * (1 << 20)))", DOUBLES, None),
    ("while True:\n    print('x' * 100000)", DOUBLES, None),
    ("f = open('big', 'wb')\nwhile True:\n    f.write(b'x' * (1 << 20))", DOUBLES, None),
    ("n = 0\nwhile True:\n    n += 1\n    open(f'file{n}', 'w').close()", DOUBLES, None),
    ("import os\nos._exit(0)", CALLS, "no_value"),
    ("def order(numbers):\n    import os\n    os._exit(0)", CALLS, "no_value"),
    ("def order(numbers):\n    import sys\n    sys.exit(0)", CALLS, "no_value"),
    ("print([1, 2, 3])\nraise SystemExit(0)", CALLS, "no_value"),
    ("def order(numbers):\n    return numbers", CALLS, "wrong_output"),
    ("def order(numbers):\n    return {1, 2}", CALLS, "runtime_error"),
    (
        "class Same:\n    def __eq__(self, other):\n        return True\ndef order(numbers):\n    return Same()",
        CALLS,
        None,
    ),
    ("def sort(numbers):\n    return sorted(numbers)", CALLS, "runtime_error"),
]
SEARCHES = """
import os, re, sys
found = [*sys.argv, *os.environ.values()]
for folder, dirs, files in os.walk("/"):
    if folder.startswith(("/usr", "/lib", "/opt", "/sys", "/etc", "/bin", "/sbin", "/dev")):
        dirs.clear()
        continue
    for name in files:
        try:
            file = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
            try:
                found.append(os.read(file, 1 << 16).decode("latin-1"))
            finally:
                os.close(file)
        except OSError:
            pass
for pid in ("self", str(os.getppid()), "1"):
    try:
        for line in open(f"/proc/{pid}/maps"):
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(low)
                found.append(memory.read(high - low).decode("latin-1"))
    except (OSError, ValueError, OverflowError):
        pass
secrets = re.findall("SECRET.OUTPUT.([0-9]{9})", "\\n".join(found))
print(*sorted(set(secrets)), input())
"""
PATCHES = """
import os, pathlib, sys, sysconfig
given = input()
for folder in [sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], ".", "/tmp", os.path.expanduser("~")]:
    for name in ("sitecustomize.py", "usercustomize.py", "json/__init__.py", "site.py"):
        try:
            pathlib.Path(folder, name).write_text("import os\\nos.write(1, b'8')\\nos._exit(0)\\n")
        except OSError:
            pass
print(int(given) * 2 if given == "4" else 8)
"""


async def test_right_programs_are_paid(server: CodeServer) -> None:
    for program, tests in HONEST:
        verdict = await judge(server, program, tests)
        assert (verdict.reward, verdict.metrics["tests_passed"]) == (1.0, 1.0), (program, verdict)


@pytest.mark.slow
async def test_cheaters_are_not(server: CodeServer) -> None:
    verdicts = []
    for program, tests, reason in CHEATERS:
        try:
            verdict = await judge(server, program, tests)
        except SandboxError as failure:
            assert reason is None, (program, failure)
            assert failure.doubtful, (program, failure)
            continue
        verdicts.append(verdict)
        assert verdict.reward == 0.0, (program, verdict)
        assert reason in (None, verdict.reason), (program, verdict)
    assert len(verdicts) >= len(CHEATERS) - 1
    assert (await judge(server, "print(2 * int(input()))")).reward == 1.0
    assert server._lease is not None
    assert server._lease.value.live() == []


async def test_outputs_are_nowhere_in_the_sandbox(server: CodeServer) -> None:
    hidden = f"SECRET-OUTPUT-{random.randrange(10**8, 10**9)}"
    digits = hidden[-9:]
    tests = {"inputs": ["1", "2"], "outputs": [f"{digits} 1", f"{digits} 2\n{hidden}"]}
    verdict = await judge(server, SEARCHES, tests)
    assert (verdict.reward, verdict.metrics["tests_passed"]) == (0.0, 0.0), verdict
    shown = await judge(server, f"{SEARCHES}# {hidden}", {"inputs": ["1"], "outputs": [f"{digits} 1"]})
    assert shown.reward == 1.0, "the search finds what is there"


async def test_what_a_test_patches_earns_nothing_in_the_next(server: CodeServer) -> None:
    assert (await judge(server, PATCHES)).reward == 0.0
    assert (await judge(server, "print(2 * int(input()))")).reward == 1.0
    assert (await judge(server, "def order(numbers):\n    return sorted(numbers)", CALLS)).reward == 1.0


async def test_programs_at_the_same_time_do_not_meet(server: CodeServer) -> None:
    writes = (
        "import os\nopen('/tmp/mark', 'a').write('x')\nprint(2 * int(input()) * (os.path.getsize('/tmp/mark') <= 3))"
    )
    verdicts = await asyncio.gather(*(judge(server, writes) for _ in range(8)))
    assert {verdict.reason for verdict in verdicts} == {"passed"}


async def test_languages_are_those_of_config_and_image(server: CodeServer) -> None:
    bash = "read n\necho $((2 * n))"
    perl = "print 2 * <STDIN>, qq(\\n);"
    assert (await judge(server, bash, language="bash")).reward == 1.0
    assert (await judge(server, perl, language="perl")).reward == 1.0
    assert (await judge(server, "print(2 * int(input()))", language="bash")).reason in ("runtime_error", "wrong_output")
    with pytest.raises(RowError, match=r"verifier_metadata\.language.*rustc"):
        await judge(server, "fn main() {}", language="rust")
    with pytest.raises(RowError, match=r"verifier_metadata\.language.*`python`"):
        await judge(server, "x", language="pyton")


async def test_a_language_that_compiles() -> None:
    compiled = {
        "file": "main.py",
        "compile": ["python3", "-m", "compileall", "-q", "{file}"],
        "run": ["python3", "{file}"],
    }
    server = CodeServer(CodeConfig.model_validate({"languages": {"compiled": compiled}}), name="code", peers={})
    await server.start()
    try:
        assert (await judge(server, "print(2 * int(input()))", language="compiled")).reward == 1.0
        verdict = await judge(server, "print(2 *", language="compiled")
        assert (verdict.reward, verdict.reason) == (0.0, "compile_error")
    finally:
        await server.stop()


async def test_a_sandbox_that_fails_by_itself_is_no_verdict(server: CodeServer) -> None:
    running = asyncio.ensure_future(judge(server, "import time\ntime.sleep(4)\nprint(2 * int(input()))"))
    assert server._lease is not None
    provider = server._lease.value
    while not provider.live():
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    await provider.destroy(provider.live()[0].sandbox_id)
    with pytest.raises(InfraError):
        await running


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"unit_tests": {}},
        {"unit_tests": {"inputs": [], "outputs": []}},
        {"unit_tests": {"inputs": ["1"], "outputs": []}},
        {"unit_tests": {"inputs": ["x"], "outputs": ["1"], "fn_name": "f"}},
        {"unit_tests": {"inputs": ["1"], "outputs": ["1"], "fn_name": "f; import os"}},
        {"unit_tests": CALLS, "language": "bash"},
        {"unit_tests": DOUBLES, "language": 3},
    ],
)
async def test_rows_that_cannot_be_used_name_their_key(metadata: Any) -> None:
    server = CodeServer(CodeConfig(), name="code", peers={})
    row = Row(responses_create_params={"input": "?"}, task={"verifier_metadata": metadata})
    with pytest.raises(RowError, match="verifier_metadata"):
        server.read_task(row)


async def test_an_image_that_is_missing_is_named_at_the_start() -> None:
    server = CodeServer(CodeConfig(image="no/such:image"), name="code", peers={})
    with pytest.raises(ConfigError, match="no/such:image"):
        await server.start()


def test_the_example_rows_are_what_the_script_makes() -> None:
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    assert rows == [make_rows.make_row(0, number) for number in range(len(rows))]
    assert len(rows) == 2 * len(make_rows.PROBLEMS)
