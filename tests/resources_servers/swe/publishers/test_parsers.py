"""Claims about publishers' parsers: over hundreds of logs, their own grading and ours come to the same verdict."""

import asyncio
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import pytest
from tests.resources_servers.swe.publishers import rows

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.run_results import GradingRun, read_run
from paddock.resources_servers.swe.instance import LogReader, SweInstance
from paddock.resources_servers.swe.publishers import PROGRAM, ParserSlowError, PublisherTools, interpreter, read_log
from paddock.resources_servers.swe.rows import read
from paddock.types import JsonObject, Row

LOGS = 250
OFFICIAL = Path(__file__).with_name("official.py")
WORDS = ("passed", "passed", "passed", "passed", "failed", "skipped", "error", "missing")


class LogDialect(NamedTuple):
    """How a runner writes tests: their names, and the line of each result; no line: it writes none."""

    names: list[str]
    lines: dict[str, str]


PYTEST = LogDialect(
    [f"tests/test_{file}.py::test_{name}" for file in "ab" for name in ("one", "two", "three[a b]", "four[x-1]")],
    {
        "passed": "PASSED {}",
        "failed": "FAILED {} - assert 1 == 2",
        "error": "ERROR {}",
        "skipped": "SKIPPED [1] x.py:3: no",
    },
)
VERBOSE = LogDialect(
    [f"tests/test_{file}.py::test_{name}" for file in "ab" for name in ("one", "two", "three", "four[x-1]")],
    {word: f"{{}} {word.upper()}   [ 10%]" for word in ("passed", "failed", "error", "skipped")},
)
GO = LogDialect(
    ["TestOne", "TestTwo", "TestTwo/sub", "TestTwo/sub_b", "TestThree", "TestFour", "TestFive"],
    {"passed": "--- PASS: {} (0.01s)", "failed": "--- FAIL: {} (0.02s)", "skipped": "--- SKIP: {} (0.00s)"},
)
CARGO = LogDialect(
    [f"module::tests::case_{name}" for name in ("one", "two", "three", "four", "five", "six")],
    {"passed": "test {} ... ok", "failed": "test {} ... FAILED", "skipped": "test {} ... ignored"},
)
DIALECTS = {"pytest": PYTEST, "verbose": VERBOSE, "go": GO, "cargo": CARGO}
NOISE = (
    "",
    "collected 8 items",
    "=== RUN   TestNone",
    "\x1b[32mPASSED\x1b[0m something",
    "warning: `x` is unused",
    "ok",
)


def logs_of(dialect: LogDialect, seed: int) -> list[str]:
    """Logs in which most tests pass, some are reported twice, and other things are written between."""
    chance = random.Random(seed)
    return [_log(dialect, chance) for _ in range(LOGS)]


def _log(dialect: LogDialect, chance: random.Random) -> str:
    good = chance.random() < 0.5
    lines = []
    for name in [*dialect.names, *chance.choices(dialect.names, k=chance.randrange(3))]:
        word = "passed" if good and chance.random() < 0.97 else chance.choice(WORDS)
        lines += [chance.choice(NOISE)] * chance.randrange(2)
        lines += [dialect.lines[word].format(name)] if word in dialect.lines else []
    return "\n".join(lines)


def compare(family: str, reader: LogReader, instance: SweInstance, row: JsonObject, logs: list[str]) -> list[bool]:
    """Verdicts of the publisher's, where ours are the same; else an AssertionError with the first log that differs."""
    request = {"family": family, "program": PROGRAM, "args": reader.args, "row": row, "logs": logs}
    done = subprocess.run(
        [reader.python, "-P", str(OFFICIAL)], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    for log, theirs, status in zip(logs, answer["resolved"], answer["statuses"], strict=True):
        ours = read_run(instance, GradingRun(log, 0, status=status)).status == "RESOLVED_FULL"
        skipped = [test for test in instance.fail_to_pass if status.get(test) == "SKIPPED"]
        if family == "smith" and theirs and skipped:
            assert not ours, "a test that must pass and is skipped has not passed"
        else:
            assert ours == theirs, (status, log)
    verdicts: list[bool] = answer["resolved"]
    assert {True, False} == set(verdicts)
    return verdicts


def instance_of(row: JsonObject, tools: PublisherTools) -> SweInstance:
    return read(Row.from_wire({"responses_create_params": {"input": []}, **row}), tools)


REBENCH = {
    "parse_log_pytest": "pytest",
    "parse_log_gotest": "go",
    "parse_log_cargo": "cargo",
    "parse_log_pytest_v2": "pytest",
}


@pytest.mark.slow
@pytest.mark.parametrize("parser", REBENCH)
def test_swe_rebench_v2_verdicts_are_the_publishers(rebench_checkout: Path, parser: str) -> None:
    dialect = DIALECTS[REBENCH[parser]]
    names = [name.split(" ")[0] for name in dialect.names]  # as both of its parsers of pytest cut them
    config = {"test_cmd": "x", "log_parser": parser}
    row = rows.rebench_v2(
        image_name="x/y:1",
        install_config=config,
        FAIL_TO_PASS=[f"{names[0]} [3 ms]", names[1]],
        PASS_TO_PASS=names[2:4],
    )
    instance = instance_of(row, PublisherTools(swe_rebench_v2=rebench_checkout))
    assert instance.log_reader is not None
    assert len(compare("rebench", instance.log_reader, instance, row, logs_of(dialect, 1))) == LOGS


@pytest.mark.slow
def test_swe_smith_verdicts_are_the_publishers(packages: Path) -> None:
    row = rows.smith(FAIL_TO_PASS=VERBOSE.names[:2], PASS_TO_PASS=VERBOSE.names[2:6])
    instance = instance_of(row, PublisherTools(python=packages))
    assert instance.log_reader is not None
    assert len(compare("smith", instance.log_reader, instance, row, logs_of(VERBOSE, 2))) == LOGS


MULTI = {
    "pytest": {"org": "CS-SI", "repo": "eodag", "tag": "v3.1.0b1"},
    "go": {"org": "cli", "repo": "cli", "tag": ""},
    "cargo": {"org": "clap-rs", "repo": "clap", "tag": ""},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MULTI)
def test_multi_swe_verdicts_are_the_publishers(packages: Path, name: str) -> None:
    names = [test.split("[")[0] + str(index) for index, test in enumerate(DIALECTS[name].names)]
    dialect = DIALECTS[name]._replace(names=names)
    empty: JsonObject = {"passed_tests": [], "failed_tests": [], "skipped_tests": []}
    row = rows.multi(
        **MULTI[name],
        f2p_tests={names[0]: {}},
        n2p_tests={names[1]: {}},
        s2p_tests={names[2]: {}},
        p2p_tests={names[3]: {}},
        run_result={**empty, "passed_tests": [names[3], names[5]]},
        test_patch_result={**empty, "passed_tests": names[3:5], "failed_tests": names[:1], "skipped_tests": names[2:3]},
    )
    instance = instance_of(row, PublisherTools(python=packages))
    assert instance.log_reader is not None
    assert instance.not_failed == sorted(names[4:6])
    assert len(compare("multi", instance.log_reader, instance, row, logs_of(dialect, 3))) == LOGS


def _junit(log: str) -> str:
    """The report that pytest writes of the same results."""
    cases = []
    for line in log.splitlines():
        for word, inner in (("PASSED", ""), ("FAILED", "<failure/>"), ("ERROR", "<error/>")):
            if line.startswith(f"{word} tests/"):
                path, _, name = line.removeprefix(f"{word} ").removesuffix(" - assert 1 == 2").partition("::")
                module = path.removesuffix(".py").replace("/", ".")
                cases.append(f"<testcase classname={quoteattr(module)} name={quoteattr(name)}>{inner}</testcase>")
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


def _go_json(log: str) -> str:
    actions = {"--- PASS: ": "pass", "--- FAIL: ": "fail", "--- SKIP: ": "skip"}
    events = []
    for line in log.splitlines():
        for start, action in actions.items():
            if line.startswith(start):
                event = {"Action": action, "Package": "x/y", "Test": line.removeprefix(start).split(" ")[0]}
                events.append(json.dumps(event))
    return "\n".join(events)


EXT: dict[str, tuple[LogDialect, str, Callable[[str], str]]] = {
    "pytest": (PYTEST, "", lambda log: f"{log}\0{_junit(log)}"),
    "go": (GO, "x/y::", lambda log: f"{_go_json(log)}\0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("framework", EXT)
def test_swe_bench_ext_verdicts_are_the_publishers(nemo_gym: Path, framework: str) -> None:
    dialect, prefix, written = EXT[framework]
    names = [prefix + name for name in dialect.names]
    row = rows.ext(test_framework=framework, FAIL_TO_PASS=names[:2], PASS_TO_PASS=names[2:5])
    instance = instance_of(row, PublisherTools(nemo_gym_python=nemo_gym))
    assert instance.log_reader is not None
    logs = [written(log) for log in logs_of(dialect, 4)]
    assert len(compare("ext", instance.log_reader, instance, row, logs)) == LOGS


def reader(tmp_path: Path, body: str) -> LogReader:
    """A parser of a checkout of our own."""
    path = tmp_path / "lib" / "agent" / "log_parsers.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"def parse_it(log):\n    {body}\n\n\nNAME_TO_PARSER = {{'parse_it': parse_it}}\n")
    args: JsonObject = {"folder": str(tmp_path), "parser": "parse_it"}
    return LogReader(call="rebench_parse", args=args, python=interpreter(None))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("print('chatter'); return {'a [3 ms]': 'PASSED'}", {"a": "PASSED"}),
        ("raise ValueError(log)", {}),
        ("return log.no_such_thing", {}),
    ],
)
def test_what_a_parser_says_and_where_it_fails(tmp_path: Path, body: str, found: dict[str, str]) -> None:
    assert asyncio.run(read_log(reader(tmp_path, body), "x", "", cpu_s=20)) == found


@pytest.mark.slow
def test_a_parser_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(ParserSlowError):
        asyncio.run(read_log(reader(tmp_path, "while True: pass"), "x", "", cpu_s=1))


@pytest.mark.parametrize("body", ["raise MemoryError", "import os; os._exit(3)"])
def test_a_machine_that_fails_a_parser_is_never_a_verdict(tmp_path: Path, body: str) -> None:
    with pytest.raises(VerifierError, match="the process that reads a log ended with"):
        asyncio.run(read_log(reader(tmp_path, body), "x", "", cpu_s=20))


def test_code_that_is_gone_since_the_row_was_read_is_no_verdict(tmp_path: Path) -> None:
    gone: dict[str, Any] = {"folder": str(tmp_path), "parser": "x"}
    with pytest.raises(VerifierError, match="no checkout of SWE-rebench"):
        asyncio.run(read_log(LogReader(call="rebench_parse", args=gone, python=interpreter(None)), "x", "", cpu_s=20))
