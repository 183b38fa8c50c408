"""reasoning-gym's tasks, scored by its own `score_answer`, in processes that may die.

Needs   reasoning-gym, which has to be compiled: an environment of its own, named by the block's `python`.
Row     an entry of a data set: `question`, `answer`, `metadata` with `source_dataset`; those of NeMo-Gym's
        `reasoning_gym` are read.
Reward  the data set's score, from 0 to 1.
Sound   a row is refused (RowError) whose own answer does not score 1, or for which nonsense is paid: some of the data
        sets are so.
Errors  a scorer that raises, or gives what is no score, is VerifierError: never a reward. An answer that takes more
        than `cpu_limit_s` earns nothing; a row whose own answer does is RowError.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import ConfigError, RowError, VerifierError
from paddock.http import Peer
from paddock.processes.check_pool import CheckLimits, CheckPool, CpuTimeOverError
from paddock.resources_servers.reasoning_gym.answers import CLOSE, OPEN, answer_of
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Session, Verdict
from paddock.types.responses import message_item

SCORES = Path(__file__).with_name("scores.py")
NONSENSE = ("banana", "?")
MAX_NONSENSE_SCORE = 0.05
"""Some data sets pay any answer 0.01."""
MAX_ENTRY_BYTES = 80_000
"""Of an entry; with the longest answer it fits into a message to a checking process, whatever the characters."""
_FIRST_CPU_S = 0.2
_MAX_SOUND = 100_000
"""Rows that are remembered to be sound."""


class ReasoningGymConfig(ServerConfig):
    """What a check may take."""

    processes: int | None = Field(default=None, ge=1)
    """Checking processes; None: as many as this machine has cores, 4 at most. One more runs what takes long."""
    cpu_limit_s: float = Field(default=5.0, gt=0)
    """CPU seconds that one answer may take."""
    memory_limit_mib: int = Field(default=2048, ge=512)
    """Address space of a checking process."""
    max_answer_chars: int = Field(default=8000, ge=1, le=8000)
    """Characters of an answer; a longer one is not scored and earns nothing."""
    require_sound: bool = True
    """Whether a row is tried before it is used: its own answer has to score 1, and nonsense less than 0.05."""


class EntryMetadata(BaseModel):
    """What the data set noted; only its name is read here."""

    model_config = ConfigDict(frozen=True, extra="allow")

    source_dataset: str = Field(min_length=1)


class ReasoningGymTask(BaseModel):
    """An entry of a data set; every other key of the row is kept and not read."""

    model_config = ConfigDict(frozen=True)

    question: str
    answer: str | None = None
    metadata: EntryMetadata

    def entry(self) -> JsonObject:
        return {"question": self.question, "answer": self.answer, "metadata": self.metadata.model_dump()}


class ReasoningGymServer(ResourcesServer[ReasoningGymConfig, ReasoningGymTask]):
    config_type = ReasoningGymConfig
    task_type = ReasoningGymTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "State the final answer to the following arithmetic problem: 3 + 4 ="},
        "question": "State the final answer to the following arithmetic problem: 3 + 4 =",
        "answer": "7",
        "metadata": {"source_dataset": "chain_sum"},
        "response": {"output": [{"type": "message", "role": "assistant", "content": "<answer>7</answer>"}]},
    }

    def __init__(self, config: ReasoningGymConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._pool: CheckPool | None = None
        self._sound: dict[str, None] = {}

    async def start(self) -> None:
        if find_spec("reasoning_gym") is None:
            raise ConfigError(
                f"{self.name}: reasoning-gym is not installed here; name an interpreter of an environment that has "
                "paddock and `pip install reasoning-gym` in the block's `python`",
                kind="library_missing",
            )
        self._pool = await CheckPool.start(
            SCORES,
            CheckLimits(
                processes=self.config.processes,
                first_cpu_s=min(_FIRST_CPU_S, self.config.cpu_limit_s),
                cpu_s=self.config.cpu_limit_s,
                memory_mib=self.config.memory_limit_mib,
            ),
        )

    async def stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def read_task(self, row: Row) -> ReasoningGymTask:
        task = super().read_task(row)
        if len(json.dumps(task.entry())) > MAX_ENTRY_BYTES:
            problem = f"more than {MAX_ENTRY_BYTES} bytes as JSON, too many to be scored"
            raise RowError(f"question, answer, metadata: {problem}", kind="task_invalid")
        return task

    async def seed_session(self, task: ReasoningGymTask, row: Row) -> Session:
        await self._require_sound(task)
        return Session()

    async def verify(self, task: ReasoningGymTask, row: Row, response: JsonObject) -> Verdict:
        await self._require_sound(task)
        answer = answer_of(response)
        labels = {"dataset": task.metadata.source_dataset}
        shown = {} if "extracted_answer" in row.task else {"extracted_answer": answer[:1000]}
        if not answer:
            return Verdict(reward=0.0, reason="no_answer", labels=labels)
        if len(answer) > self.config.max_answer_chars:
            return Verdict(reward=0.0, reason="too_long", labels=labels, extras=shown)
        score = await self._score(task, answer)
        if score is None:
            return Verdict(reward=0.0, reason="answer_too_costly", labels=labels, extras=shown)
        reason = "right" if score >= 1.0 else "partly_right" if score > MAX_NONSENSE_SCORE else "wrong"
        return Verdict(reward=score, reason=reason, labels=labels, extras=shown)

    async def _score(self, task: ReasoningGymTask, answer: str) -> float | None:
        """Score an answer; None: it takes more than it may."""
        assert self._pool is not None, "started"
        try:
            reply = await self._pool.check([answer, task.entry()])
        except CpuTimeOverError:
            return None
        return _usable_score(reply, task.metadata.source_dataset)

    async def _require_sound(self, task: ReasoningGymTask) -> None:
        if not self.config.require_sound:
            return
        key = json.dumps(task.entry(), sort_keys=True)
        if key in self._sound:
            return
        problem = await self._problem(task)
        if problem is not None:
            name = task.metadata.source_dataset
            raise RowError(f"metadata.source_dataset: {name}: {problem}", kind="row_unsound", stage="seed")
        if len(self._sound) >= _MAX_SOUND:
            self._sound.clear()
        self._sound[key] = None

    async def _problem(self, task: ReasoningGymTask) -> str | None:
        """Say why a row can't be trained on; None: it can."""
        if task.answer is None:
            return "the row has no `answer` of its own to try"
        tried = (task.answer, *NONSENSE)
        try:
            own, *nonsense = await asyncio.gather(*(self._score(task, answer) for answer in tried))
        except VerifierError as error:
            if error.kind not in ("scorer_raised", "scorer_nonsense"):
                raise
            return error.message
        if own is None or own < 1.0:
            return f"the row's own answer scores {own}"
        paid = next((score for score in nonsense if score is None or score > MAX_NONSENSE_SCORE), 0.0)
        return f"nonsense scores {paid}" if paid != 0.0 else None

    def oracle(self, task: ReasoningGymTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the row's own answer in its tag."""
        return [[message_item(f"{OPEN}{task.answer or ''}{CLOSE}")]]


def _usable_score(reply: Mapping[str, Any], dataset: str) -> float | None:
    problem, score = reply["problem"], reply["score"]
    if problem == "costly":
        return None
    if problem:
        raise VerifierError(f"the scorer of {dataset} raised {problem}", kind="scorer_raised", retryable=False)
    if isinstance(score, bool | str) or score is None or not 0.0 <= score <= 1.0:
        raise VerifierError(f"the scorer of {dataset} gave {score!r}", kind="scorer_nonsense", retryable=False)
    return float(score)
