"""Math: a final answer against the expected one, by math-verify, in processes that may die.

Row     `expected_answer` (LaTeX or plain text); `question` may be there. Those of NeMo-Gym's math_with_judge are read.
Answer  see `answers.py`: the last box, else the last line; several answers are a list.
Reward  1 where the two are equal. What can't be wrong is decided here, the rest in a pool (`paddock.processes`).
Errors  an answer that costs too much is a verdict; a checking process that dies twice for another reason, or gets no
        CPU, is VerifierError; an expected answer that costs too much by itself is RowError.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import ConfigError, RowError
from paddock.http import Peer
from paddock.processes.check_pool import CheckLimits, CheckPool, CpuTimeOverError
from paddock.resources_servers.math.answers import answer_of, depth_of, is_balanced, written
from paddock.resources_servers.math.numbers import equal_numbers, is_calculation
from paddock.resources_servers.math.units import units_differ
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import content_text, message_item

MathReason = Literal[
    "match",
    "different",
    "no_answer",
    "several_answers",
    "not_evaluated",
    "unreadable",
    "answer_too_costly",
]
COMPARISON = Path(__file__).with_name("comparison.py")
MAX_DEPTH = 20
"""Brackets in brackets; more take the library seconds."""
_FIRST_CPU_S = 0.2
"""Thirty times what a usual answer takes."""


class MathConfig(ServerConfig):
    processes: int | None = Field(default=None, ge=1)
    """Checking processes; None: as many as this machine has cores, 4 at most. One more runs what takes long."""
    cpu_limit_s: float = Field(default=2.0, gt=0)
    """CPU seconds that one answer may take."""
    memory_limit_mib: int = Field(default=1024, ge=256)
    """Address space of a checking process."""
    max_answer_chars: int = Field(default=500, ge=1, le=5000)
    """Characters of an answer; longer ones are not read."""
    evaluated: bool = True
    """Where a plain number is expected, a calculation that comes to it is not paid. False: as in NeMo-Gym, it is."""
    max_cached_verdicts: int = Field(default=10_000, ge=0)
    """Comparisons that are remembered, so that equal answers of a group cost one; 0: none."""


class MathTask(BaseModel):
    """The answer; every other key of the row is kept and not read."""

    model_config = ConfigDict(frozen=True)

    expected_answer: str | int | float
    """LaTeX or plain text, with or without delimiters."""
    question: str | None = None
    """The problem as text; None: it is read from the prompt."""


class AnswerComparison(BaseModel):
    """How two answers compare."""

    model_config = ConfigDict(frozen=True)

    reason: MathReason
    detail: str = ""


class MathServer(ResourcesServer[MathConfig, MathTask]):
    config_type = MathConfig
    task_type = MathTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "What is 3/6 as a decimal? Put the answer into \\boxed{}."},
        "expected_answer": "0.5",
        "response": {"output": [{"type": "message", "role": "assistant", "content": "It is \\boxed{\\frac{1}{2}}."}]},
    }

    def __init__(self, config: MathConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._pool: CheckPool | None = None
        self._compared: OrderedDict[tuple[str, str], asyncio.Future[AnswerComparison]] = OrderedDict()

    async def start(self) -> None:
        if find_spec("math_verify") is None:
            raise ConfigError(
                f"{self.name}: math-verify is not installed; `pip install 'paddock[math]'`", kind="library_missing"
            )
        limits = CheckLimits(
            processes=self.config.processes,
            first_cpu_s=min(_FIRST_CPU_S, self.config.cpu_limit_s),
            cpu_s=self.config.cpu_limit_s,
            memory_mib=self.config.memory_limit_mib,
        )
        self._pool = await CheckPool.start(COMPARISON, limits)

    async def stop(self) -> None:
        pool, self._pool = self._pool, None
        for comparison in self._compared.values():
            comparison.cancel()
        self._compared.clear()
        if pool is not None:
            await pool.close()

    def read_task(self, row: Row) -> MathTask:
        task = super().read_task(row)
        length, most = len(str(task.expected_answer)), self.config.max_answer_chars
        if length > most or not written(str(task.expected_answer)):
            problem = f"{length} characters; an answer has at least one and at most {most}"
            raise RowError(f"expected_answer: {problem}", kind="expected_answer_unusable")
        return task

    async def verify(self, task: MathTask, row: Row, response: JsonObject) -> Verdict:
        found = answer_of(response)
        comparison = (
            AnswerComparison(reason=found.problem) if found.problem else await self._compare(task, row, found.text)
        )
        shown = found.text[: self.config.max_answer_chars]
        return Verdict(
            reward=float(comparison.reason == "match"),
            reason=comparison.reason,
            detail=comparison.detail or None,
            extras={} if "extracted_answer" in row.task else {"extracted_answer": shown or None},
        )

    async def _compare(self, task: MathTask, row: Row, answer: str) -> AnswerComparison:
        expected = written(str(task.expected_answer))
        if answer == expected:
            return AnswerComparison(reason="match")
        if len(answer) > self.config.max_answer_chars or depth_of(answer) > MAX_DEPTH:
            size = f"{len(answer)} characters, brackets {depth_of(answer)} deep"
            return AnswerComparison(reason="answer_too_costly", detail=f"not read: {size}")
        if not is_balanced(answer):
            return AnswerComparison(reason="unreadable", detail="a brace has no other one")
        if self.config.evaluated and is_calculation(expected, answer, task.question or _prompt(row)):
            return AnswerComparison(reason="not_evaluated", detail=f"a number is expected, not {answer}")
        if units_differ(expected, answer):
            return AnswerComparison(reason="different", detail="the unit is another one")
        equal = equal_numbers(expected, answer)
        if equal is not None:
            return _difference(expected, answer, equal)
        return await self._remembered(expected, answer)

    async def _remembered(self, expected: str, answer: str) -> AnswerComparison:
        """Compare in a process, unless the same two are known or being compared."""
        key = (expected, answer)
        known = self._compared.get(key)
        if known is None:
            known = asyncio.ensure_future(self._check(expected, answer))
            self._compared[key] = known
            while len(self._compared) > max(1, self.config.max_cached_verdicts):
                self._compared.popitem(last=False)
        else:
            self._compared.move_to_end(key)
        try:
            return await asyncio.shield(known)
        finally:
            failed = known.done() and (known.cancelled() or known.exception() is not None)
            if (failed or not self.config.max_cached_verdicts) and self._compared.get(key) is known:
                del self._compared[key]

    async def _check(self, expected: str, answer: str) -> AnswerComparison:
        assert self._pool is not None, "started"
        try:
            reply = await self._pool.check([expected, answer])
        except CpuTimeOverError:
            await self._require_cheap(expected)
            limit = f"more than {self.config.cpu_limit_s:g} s of CPU"
            return AnswerComparison(reason="answer_too_costly", detail=limit)
        if reply["costly"]:
            return AnswerComparison(reason="answer_too_costly", detail=reply["costly"])
        if not reply["read"] and not reply["equal"]:
            return AnswerComparison(reason="unreadable", detail=f"not read as mathematics: {answer}")
        return _difference(expected, answer, bool(reply["equal"]))

    async def _require_cheap(self, expected: str) -> None:
        """Raise RowError where it is the row that costs too much."""
        assert self._pool is not None, "started"
        try:
            await self._pool.check([expected, expected])
        except CpuTimeOverError:
            problem = f"to read it takes more than {self.config.cpu_limit_s:g} s of CPU"
            raise RowError(f"expected_answer: {problem}", kind="expected_answer_unusable") from None

    def oracle(self, task: MathTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the expected answer in a box."""
        return [[message_item(f"The answer is $\\boxed{{{written(str(task.expected_answer))}}}$.")]]


def _difference(expected: str, answer: str, equal: bool) -> AnswerComparison:
    if equal:
        return AnswerComparison(reason="match")
    return AnswerComparison(reason="different", detail=f"expected {expected}, got {answer}")


def _prompt(row: Row) -> str:
    """The text of the row's prompt."""
    given = row.responses_create_params.get("input")
    if isinstance(given, str):
        return given
    items = given if isinstance(given, list) else []
    return "\n".join(content_text(item.get("content")) for item in items if isinstance(item, dict))
