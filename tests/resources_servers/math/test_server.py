"""Claims about the verdicts of math: equal forms are paid, others and cheaters are not, and none of them stops it."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import RowError, VerifierError
from paddock.resources_servers.math import MathServer, make_rows
from paddock.resources_servers.math.numbers import equal_numbers
from paddock.resources_servers.math.server import MathConfig
from paddock.types import Row, Verdict
from paddock.types.responses import make_response, message_item

EXAMPLE = Path(make_rows.__file__).with_name("data") / "example.jsonl"


@pytest.fixture
async def server() -> AsyncIterator[MathServer]:
    with_server = MathServer(MathConfig(processes=2), name="math", peers={})
    await with_server.start()
    yield with_server
    await with_server.stop()


async def judge(server: MathServer, expected: object, text: str, question: str = "") -> Verdict:
    row = Row(
        responses_create_params={"input": question or "?"}, task={"expected_answer": expected, "question": question}
    )
    return await server.verify(server.read_task(row), row, make_response([message_item(text)], {}, model="x"))


EQUAL = [
    ("1/2", "0.5"),
    ("1/2", r"\frac12"),
    ("0.5", r"\frac{1}{2}"),
    (r"\frac{1}{2}", r"\dfrac{2}{4}"),
    ("1/2", r"50\%"),
    ("50", r"50\%"),
    ("0.5", "50%"),
    ("1000", "1,000"),
    ("1,000", "1000"),
    ("1000", r"1{,}000"),
    ("1000", r"1\,000"),
    ("7", "007"),
    ("7", "7.0"),
    ("7", "+7"),
    ("-3", "−3"),
    ("5", "x = 5"),
    ("x=5", "5"),
    ("42", "17+25=42"),
    ("5", r"5 \text{ cm}"),
    (r"5\text{ cm}", "5"),
    (r"5\text{ cm}", r"5\,\mathrm{cm}"),
    (r"5\text{ cm}", r"5\text{ centimeters}"),
    ("90", r"90^\circ"),
    ("1/3", "0.333333"),
    (r"\pi", "3.141593"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("3000000", r"3 \times 10^6"),
    ("1024", "2^{10}"),
    ("120", "5!"),
    ("x^2+1", "1+x^2"),
    ("(x+1)^2", "x^2+2x+1"),
    (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}"),
    ("1, 2", "2, 1"),
    (r"\{1,2\}", "1,2"),
    ("1, 2", r"x = 1 \text{ or } x = 2"),
    ("(1,2)", "(1, 2)"),
    ("[1,2)", r"\left[1,2\right)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
    ("A", r"\text{A}"),
    (r"\(\frac{3}{4}\)", "0.75"),
    ("$12$", "12"),
    (12, "12"),
    (0.25, r"\frac14"),
]
DIFFERENT = [
    ("1/2", "0.51"),
    ("1/3", "0.33"),
    ("12", "13"),
    ("12", "-12"),
    ("12", "1 2"),
    ("(1,2)", "[1,2]"),
    ("(1,2)", "(2,1)"),
    ("1, 2", "1, 2, 3"),
    ("1, 2", "1"),
    (r"5\text{ m}", r"5\text{ km}"),
    (r"5\text{ m}^2", r"5\text{ m}^3"),
    ("x=5", "y=5"),
    ("x^2", "x^3"),
    ("A", "B"),
    ("yes", "no"),
    (r"\infty", "0"),
]
HEDGES = [
    ("2", r"\boxed{1} or \boxed{2}"),
    ("1", r"\boxed{1} or \boxed{2}"),
    ("2", r"\boxed{1 \text{ or } 2}"),
    ("2", r"\boxed{1, 2, 3, 4}"),
    ("2", r"\boxed{\{1,2,3\}}"),
    ("2", r"\boxed{x \in \{1, 2\}}"),
    ("3", r"\boxed{5 \pm 2}"),
    ("2", r"\boxed{[1, 3]}"),
    ("2", r"\boxed{1 \le x \le 3}"),
    ("2", r"\boxed{x > 1}"),
    ("2", r"\boxed{2 | 3}"),
    ("2", r"\boxed{\text{2 or 3}}"),
    ("2", r"\boxed{1 \boxed{2}}"),
    ("2", "\\boxed{1} \\boxed{2} \\boxed{3}"),
    ("2", r"\boxed{1; 2}"),
    ("2", r"\boxed{1 \quad 2}"),
    ("2", r"\boxed{1 \\ 2}"),
    ("2", r"\boxed{\begin{cases}1\\2\end{cases}}"),
    ("2", "The answer is 1 or 2"),
    ("2", "Candidates are 1, 2, 3 and 4."),
    ("2", "1, 2, 3"),
    ("A", r"\boxed{A, B, C, D}"),
    ("A", r"\boxed{A \text{ or } B}"),
    ("2", r"\boxed{x}"),
    ("2", r"\boxed{}"),
    ("2", r"\boxed{\infty}"),
    ("2", r"\boxed{\frac{2}{0}}"),
    ("2", r"\boxed{\text{nan}}"),
    ("2", r"\boxed{expected\_answer}"),
    ("\\frac{1}{2}", r"\boxed{????? \frac{1}{2}}"),
    ("2", r"\boxed{1} and 2} \boxed{3"),
]
CALCULATIONS = [
    ("42", "17+25", "What is 17+25?"),
    ("42", "25 + 17", "What is 17+25?"),
    ("42", r"6 \cdot 7", "What is six times seven?"),
    ("42", r"\frac{84}{2}", "Halve 84."),
    ("42", "84/2", "Halve 84."),
    ("42", r"\max(1, 42)", "Which is larger, 1 or 42?"),
    ("42", "x = 50 - 8", "Take 8 from 50."),
    ("1024", "2^{10}", "What is $2^{10}$?"),
    ("120", "5!", "Compute $5!$."),
    ("2", r"\sqrt{4}", r"What is \sqrt{4}?"),
    ("5050", r"\sum_{k=1}^{100} k", "Add the integers up to 100."),
    ("1/2", r"\frac{1}{4} + \frac{1}{4}", "Add."),
    ("3", r"|{-3}|", "?"),
]


async def test_equal_forms_are_paid(server: MathServer) -> None:
    for expected, answer in EQUAL:
        verdict = await judge(server, expected, f"So it is $\\boxed{{{answer}}}$.")
        assert verdict.reward == 1.0, (expected, answer, verdict.reason, verdict.detail)


async def test_other_answers_are_not(server: MathServer) -> None:
    for expected, answer in DIFFERENT:
        verdict = await judge(server, expected, f"\\boxed{{{answer}}}")
        assert (verdict.reward, verdict.reason) == (0.0, "different"), (expected, answer, verdict.reason)


async def test_hedging_is_not_paid(server: MathServer) -> None:
    for expected, text in HEDGES:
        verdict = await judge(server, expected, text)
        assert verdict.reward == 0.0, (expected, text, verdict.reason)


async def test_a_calculation_is_no_number(server: MathServer) -> None:
    for expected, answer, question in CALCULATIONS:
        verdict = await judge(server, expected, f"\\boxed{{{answer}}}", question)
        assert (verdict.reward, verdict.reason) == (0.0, "not_evaluated"), (expected, answer, verdict.reason)


async def test_a_calculation_is_a_number_where_the_config_says_so() -> None:
    server = MathServer(MathConfig(processes=1, evaluated=False), name="math", peers={})
    await server.start()
    try:
        assert (await judge(server, "42", r"\boxed{17+25}", "What is 17+25?")).reward == 1.0
    finally:
        await server.stop()


@given(st.integers(-50, 50), st.integers(1, 12), st.integers(-50, 50), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_what_is_decided_here_is_what_the_library_says(a: int, b: int, c: int, d: int) -> None:
    from paddock.resources_servers.math import comparison

    forms = [
        (f"{n}/{m}", f"\\frac{{{n}}}{{{m}}}", str(n), str(n / m), f"{n * 1000 + 1000:,}") for n, m in ((a, b), (c, d))
    ]
    for left in forms[0]:
        for right in forms[1]:
            here = equal_numbers(left, right)
            if here is not None:
                assert comparison.check([left, right])["equal"] == here, (left, right)


COSTLY = [
    "9^{9^{9^9}}",
    "2^{10^{10}}",
    "(" * 300 + "1" + ")" * 300,
    "(" * 40 + "9" + ")" * 40,
    "+".join(["1"] * 400),
    "1" * 5000,
    "x" * 200_000,
    "(10^{6})!",
    r"\binom{10^9}{10^8}",
    r"\sum_{k=1}^{10000000} \frac1{k^k}",
    r"(a+b+c+d+e)^{20}",
]


@pytest.mark.slow
async def test_costly_answers_are_verdicts_and_hold_up_nobody(server: MathServer) -> None:
    await judge(server, "x^2", r"\boxed{x^2+0}")  # the library is loaded
    started = time.monotonic()
    costly = asyncio.gather(*(judge(server, r"x+\pi", f"\\boxed{{{text}}}") for text in COSTLY))
    await asyncio.sleep(0.01)
    honest = await asyncio.gather(*(judge(server, "x^2", f"\\boxed{{x^2+{n}-{n}}}") for n in range(20)))
    assert {verdict.reason for verdict in honest} == {"match"}
    assert not costly.done(), "the neighbours were served before the costly ones had come to their limits"
    for text, verdict in zip(COSTLY, await costly, strict=True):
        assert (verdict.reward, verdict.reason) == (0.0, "answer_too_costly"), (text[:40], verdict.reason)
    assert time.monotonic() - started < 200


async def test_equal_answers_of_a_group_cost_one(server: MathServer) -> None:
    verdicts = await asyncio.gather(*(judge(server, r"x+\pi", r"\boxed{(a+b+c+d+e)^{20}}") for _ in range(64)))
    assert {verdict.reason for verdict in verdicts} == {"answer_too_costly"}


def forks() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [process for process in found if any("check_forks" in word for word in process.cmdline())]


async def test_a_process_that_dies_once_costs_nothing_and_twice_is_the_verifiers_failure(server: MathServer) -> None:
    await judge(server, "x^2", r"\boxed{x^2+1}")
    slow = asyncio.ensure_future(judge(server, r"x+\pi", r"\boxed{(x+1)^{3000}}"))
    killed = 0
    while not slow.done():
        await asyncio.sleep(0.02)
        for process in forks():
            if process.ppid() != os.getpid():
                process.send_signal(signal.SIGKILL)
                killed += 1
    with pytest.raises(VerifierError) as failure:
        await slow
    assert failure.value.kind == "check_process_died"
    assert killed >= 2
    assert (await judge(server, "x^2", r"\boxed{x^2+1-1}")).reward == 1.0


async def test_all_processes_are_gone_after_the_stop() -> None:
    server = MathServer(MathConfig(processes=2), name="math", peers={})
    await server.start()
    await judge(server, "x^2", r"\boxed{x^2+1}")
    assert len(forks()) >= 2
    await server.stop()
    assert forks() == []


async def test_the_forking_process_itself_may_die(server: MathServer) -> None:
    await judge(server, "x^2", r"\boxed{x^2+1}")
    own = {child.pid for child in psutil.Process().children()}
    for process in forks():  # those of checks may end meanwhile
        if process.pid in own:
            process.send_signal(signal.SIGKILL)
    for n in range(1, 5):
        assert (await judge(server, "x^2", f"\\boxed{{x^2+{n}-{n}}}")).reward == 1.0


async def test_numbers_longer_than_the_interpreter_reads_are_judged() -> None:
    server = MathServer(MathConfig(processes=1, max_answer_chars=5000), name="math", peers={})
    await server.start()
    try:
        verdict = await judge(server, "7", f"\\boxed{{{'7' * 4400}}}")
        assert verdict.reward == 0.0, verdict
    finally:
        await server.stop()


async def test_rows_that_cannot_be_used_name_their_key(server: MathServer) -> None:
    for task in ({}, {"expected_answer": None}, {"expected_answer": ["1"]}, {"expected_answer": " "}):
        with pytest.raises(RowError, match="expected_answer"):
            server.read_task(Row(responses_create_params={"input": "?"}, task=task))


async def test_a_row_whose_answer_costs_too_much_is_the_rows_fault() -> None:
    server = MathServer(MathConfig(processes=1, cpu_limit_s=0.02), name="math", peers={})
    await server.start()
    try:
        with pytest.raises(RowError, match="expected_answer"):
            await judge(server, "+".join(["1"] * 200), r"\boxed{x}")
    finally:
        await server.stop()


def test_the_example_rows_are_what_the_script_makes() -> None:
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    assert rows == [make_rows.make_row(0, number) for number in range(len(make_rows.KINDS))]


async def test_the_known_answers_of_many_rows_are_paid(server: MathServer) -> None:
    async def one(number: int) -> Verdict:
        made = make_rows.make_row(7, number)
        task = {key: made[key] for key in ("question", "expected_answer")}
        row = Row(responses_create_params=made["responses_create_params"], task=task)
        items = [item for turn in server.oracle(server.read_task(row), row) for item in turn]
        return await server.verify(server.read_task(row), row, make_response(items, {}, model="x"))

    assert {verdict.reason for verdict in await asyncio.gather(*map(one, range(300)))} == {"match"}


def test_the_library_is_not_imported_by_the_server() -> None:
    import subprocess
    import sys

    code = "import sys, paddock.resources_servers.math.server; print('sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
