"""Judged: a free answer against the expected one, compared by a model server of the config.

Row     `expected_answer`, and `question` or a prompt: those of NeMo-Gym's equivalence_llm_judge are read (`task`).
Reward  1 where the texts are the same, or where the judge says so, by default in both orders; else 0.
Judge   is shown question and answers, quoted, and not which answer is whose (`prompt`). What it replied is in the
        verdict, by which it can be had again offline.
Errors  a judge that is down, refuses or gives no usable answer in its tries is VerifierError, never a reward; a row
        without an expected answer that would be read is RowError.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from paddock.errors import RowError, VerifierError
from paddock.http import Peer
from paddock.resources_servers.judged.prompt import DEFAULT_TEMPLATE, JudgePrompt, Labels
from paddock.resources_servers.judged.task import JudgedTask, answer_of, question_of
from paddock.server import ResourcesServer, ServerConfig
from paddock.server.model_judge import ModelJudge, ModelJudgeOptions
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import message_item

JudgedReason = Literal["same_text", "equal", "not_equal", "orders_disagree", "no_answer", "too_long"]
JUDGE_REPLIES = "judge_replies"
"""Key of a verdict's extras: the judge's texts, of each order in which it was asked."""


class JudgedConfig(ServerConfig):
    """The judge, what it is asked, and which answers it is shown."""

    judge: ModelJudgeOptions
    """The model that compares answers."""
    prompt_template: str = DEFAULT_TEMPLATE
    """Jinja2 text, or path, of the judge's prompt: `question`, `answer_a` and `answer_b` (quoted between marks that end
    with `nonce`), `equal_label`, `not_equal_label`."""
    equal_label: str = Field(default="[[A=B]]", min_length=3)
    """What a judge's line begins with where the answers are the same; capitals do not matter."""
    not_equal_label: str = Field(default="[[A!=B]]", min_length=3)
    """What it begins with where they are not."""
    check_twice_swap: bool = True
    """A first "same" counts where the judge also says it of the answers in the other order. False: at once."""
    max_answer_chars: int = Field(default=8000, ge=1)
    """Characters of an answer; a longer one is not shown to the judge and earns nothing."""
    max_question_chars: int = Field(default=16_000, ge=0)
    """Characters of the end of the question that the judge is shown."""

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if self.equal_label.strip().casefold() == self.not_equal_label.strip().casefold():
            raise ValueError("equal_label and not_equal_label: are the same")
        return self


class JudgedComparison(NamedTuple):
    """How an answer compares with the expected one."""

    reason: JudgedReason
    replies: tuple[str, ...] = ()
    """The judge's texts; empty: it was not asked."""
    calls: int = 0
    """Requests that the judge answered, unusable answers too."""


class JudgedServer(ResourcesServer[JudgedConfig, JudgedTask]):
    config_type = JudgedConfig
    task_type = JudgedTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "Which gas do plants take in to make sugar?"},
        "expected_answer": "carbon dioxide",
        "response": {"output": [message_item("They take in CO2.")]},
    }

    def __init__(self, config: JudgedConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._labels = Labels(config.equal_label.strip(), config.not_equal_label.strip())
        self._prompt = JudgePrompt(config.prompt_template, self._labels)
        self._judge = ModelJudge(config.judge, peers, VerifierError)

    def read_task(self, row: Row) -> JudgedTask:
        task = super().read_task(row)
        length, most = len(task.expected), self.config.max_answer_chars
        if length > most:
            problem = f"{length} characters; of an answer at most {most} are read"
            raise RowError(f"expected_answer: {problem}", kind="expected_answer_unusable")
        return task

    async def verify(self, task: JudgedTask, row: Row, response: JsonObject) -> Verdict:
        answer = answer_of(response)
        return self._verdict(row, self._known(task, answer) or await self._ask(task, row, answer))

    async def reverify(self, task: JudgedTask, row: Row, response: JsonObject, verdict: Verdict) -> Verdict:
        """Judge again by what the judge replied then, which the verdict holds; it is not asked."""
        known = self._known(task, answer_of(response))
        return self._verdict(row, known or self._from_replies(verdict))

    def _known(self, task: JudgedTask, answer: str) -> JudgedComparison | None:
        """Compare without the judge; None: it has to be asked."""
        if not answer:
            return JudgedComparison("no_answer")
        if len(answer) > self.config.max_answer_chars:
            return JudgedComparison("too_long")
        return JudgedComparison("same_text") if answer.split() == task.expected.split() else None

    async def _ask(self, task: JudgedTask, row: Row, answer: str) -> JudgedComparison:
        question = question_of(task, row)
        question = question[max(0, len(question) - self.config.max_question_chars) :]
        async with self._judge.turn():
            first = await self._judge.ask(self._prompt.write(question, task.expected, answer), self._labels.read)
            replies, calls = (first.answer.text,), first.calls
            if not first.answer.equal or not self.config.check_twice_swap:
                return JudgedComparison("equal" if first.answer.equal else "not_equal", replies, calls)
            second = await self._judge.ask(self._prompt.write(question, answer, task.expected), self._labels.read)
        reason: JudgedReason = "equal" if second.answer.equal else "orders_disagree"
        return JudgedComparison(reason, (*replies, second.answer.text), calls + second.calls)

    def _from_replies(self, verdict: Verdict) -> JudgedComparison:
        stored = verdict.extras.get(JUDGE_REPLIES)
        replies = tuple(text for text in stored if isinstance(text, str)) if isinstance(stored, list) else ()
        said = [self._labels.verdict(text) for text in replies]
        calls = int(verdict.metrics.get("judge_calls", 0))
        if said[:1] == [False]:
            return JudgedComparison("not_equal", replies, calls)
        needed = 2 if self.config.check_twice_swap else 1
        if len(said) < needed or None in said[:needed]:
            problem = f"{needed} of the judge's replies with these labels are needed"
            raise VerifierError(f"{JUDGE_REPLIES}: {problem}", kind="record_missing", retryable=False)
        return JudgedComparison("equal" if all(said[:needed]) else "orders_disagree", replies, calls)

    def _verdict(self, row: Row, comparison: JudgedComparison) -> Verdict:
        stored = {JUDGE_REPLIES: list(comparison.replies)} if comparison.replies else {}
        return Verdict(
            reward=float(comparison.reason in ("same_text", "equal")),
            reason=comparison.reason,
            metrics={"judge_calls": float(comparison.calls)},
            extras={key: value for key, value in stored.items() if key not in row.task},
        )

    def oracle(self, task: JudgedTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the expected answer as it stands, which the judge need not be asked about."""
        return [[message_item(task.expected)]]
