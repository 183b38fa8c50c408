"""Multiple choice, graded by reading a letter; rows as NeMo-Gym's `mcqa` has them.

Reward  1 where the answer names the right option and no other, else 0.
Reading by default an answer has to commit itself: wherever its row's rule looks for an answer, the same letter stands.
        `reading: nemo_gym` takes what NeMo-Gym takes: the first of several, or the last that a row's pattern finds.
Reasons `correct`, `wrong_choice`, `several_choices`, `no_choice`, `too_long`, `pattern_too_slow`.
Errors  a row that no answer could be right for is RowError; whatever the policy wrote is judged.
"""

from collections.abc import Sequence

from pydantic import Field

from paddock.errors import BugError
from paddock.patterns import PatternTooSlow, bounded, require_pattern
from paddock.resources_servers.choice.letters import Choice, Reading, read_choice
from paddock.resources_servers.choice.task import PATTERN_FLAGS, ChoiceTask, GradingMode
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import message_item, messages

_ORACLE_FORMS = ("\\boxed{%s}", "Answer: %s", "Answer: \\boxed{%s}", "The answer is %s", "%s", "**%s**", "((%s))")


class ChoiceConfig(ServerConfig):
    """How answers are read."""

    reading: Reading = "committed"
    """Which of several places that name an option counts: `committed`: all must name the same one; `nemo_gym`: the
    first, or the last match of the row's pattern."""
    grading_mode: GradingMode | None = None
    """Rule for all rows; None: each row's own `grading_mode`."""
    max_answer_chars: int = Field(default=200_000, ge=1)
    """Characters of an answer; a longer one is not read and earns nothing."""


class ChoiceServer(ResourcesServer[ChoiceConfig, ChoiceTask]):
    config_type = ChoiceConfig
    task_type = ChoiceTask
    example = {
        "responses_create_params": {"input": "Which is a prime?\nA: 8\nB: 7\nEnd with \\boxed{LETTER}."},
        "options": [{"A": "8"}, {"B": "7"}],
        "expected_answer": "B",
        "response": {"output": [message_item("Seven. \\boxed{B}")]},
    }

    def read_task(self, row: Row) -> ChoiceTask:
        task = super().read_task(row)
        for pattern in task.patterns:
            require_pattern(pattern, "template_metadata.output_regex", flags=PATTERN_FLAGS)
        mode = self.config.grading_mode
        return task if mode is None else task.model_copy(update={"grading_mode": mode})

    async def verify(self, task: ChoiceTask, row: Row, response: JsonObject) -> Verdict:
        text = "".join(messages(response)).strip()
        if len(text) > self.config.max_answer_chars:
            return Verdict(reward=0.0, reason="too_long", comparator=self.config.reading)
        try:
            choice = await bounded(lambda cpu_s: read_choice(text, task, self.config.reading, cpu_s), text)
        except PatternTooSlow:
            return Verdict(reward=0.0, reason="pattern_too_slow", comparator=self.config.reading)
        return self._verdict(task, row, choice)

    def _verdict(self, task: ChoiceTask, row: Row, choice: Choice) -> Verdict:
        if choice.several:
            reason = "several_choices"
        elif choice.letter is None:
            reason = "no_choice"
        else:
            reason = "correct" if choice.letter == task.right else "wrong_choice"
        found: JsonObject = {"extracted_answer": choice.letter}
        return Verdict(
            reward=float(reason == "correct"),
            reason=reason,
            comparator=self.config.reading,
            extras={key: value for key, value in found.items() if key not in row.task},
        )

    def oracle(self, task: ChoiceTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the right letter in the first form that the row's rule reads."""
        for form in _ORACLE_FORMS:
            text = form % task.right
            if read_choice(text, task, self.config.reading).letter == task.right:
                return [[message_item(text)]]
        raise BugError(
            f"no known form of an answer is read by template_metadata.output_regex {task.patterns!r}", kind="no_oracle"
        )
