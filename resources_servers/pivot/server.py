"""Pivot: one step of an expert trajectory, rewarded when the policy's action does what the expert's did.

Source  PivotRL, arXiv:2603.21383; NeMo-Gym's two pivot servers, whose rows it takes unchanged.
Row     the history up to the step in `responses_create_params`, the expert's action in `expected_action`; with `cwd`
        (absolute path, here or in `metadata`) the directory in which its tools run.
Reward  by the comparator that the config names (`compat`, `layered`, `semantic`, `executed`); the verdict names it too.
Judge   with `judge`, a model is asked where `semantic` is undecided (`judge`); what it said is in the verdict, by which
        it can be had again offline.
Time    a long response is judged in a thread, so that no other request waits for it.
Weak    a row whose expert only says something (a message, last words, a question, a thought, a plan) has the metric
        `weak_row`: that words say the same is a rule of thumb.
Errors  a row without a usable expected action is RowError: dropped, never scored 0. Whatever the policy sent is judged.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.errors import RowError
from paddock.http import Peer
from paddock.resources_servers.pivot import compat, layered, semantic
from paddock.resources_servers.pivot.compat import CompatOptions
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.judge.equivalence import EquivalenceJudge, JudgeOpinion
from paddock.resources_servers.pivot.judge.options import JudgeOptions
from paddock.resources_servers.pivot.layered import LayeredOptions
from paddock.resources_servers.pivot.mining.replay_options import ReplayOptions
from paddock.resources_servers.pivot.semantic import SemanticOptions
from paddock.resources_servers.pivot.task import (
    ActionComparison,
    ExpectedAction,
    ExpectedMessage,
    chars_of,
    expected_calls,
    read_expected,
)
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Session, Verdict
from paddock.types.records import WEAK_ROW
from paddock.types.responses import call_item, content_text, message_item

if TYPE_CHECKING:
    from paddock.resources_servers.pivot.executed.comparator import ExecutedComparator
    from paddock.sandbox import Provider
    from paddock.sandbox.leases import Lease

Comparator = Literal["compat", "layered", "semantic", "executed"]

_MAX_CHARS_ON_LOOP = 4096
"""Characters of a response that take a comparator some milliseconds at most."""


JUDGE_ANSWERS = "judge_answers"
"""Key of a verdict's extras: what the judge said in each order in which it was asked."""
_NOT_READ = ("too_long", "too_many_calls")
"""Reasons of `semantic` for responses that it does not read."""


class PivotConfig(ServerConfig):
    comparator: Comparator = "semantic"
    """The rules by which an answer's calls are compared with the expert's."""
    compat: CompatOptions = CompatOptions()
    """Settings of the rules `compat`."""
    layered: LayeredOptions = LayeredOptions()
    """Settings of the rules `layered`."""
    semantic: SemanticOptions = SemanticOptions()
    """Settings of the rules `semantic`."""
    executed: ExecutedOptions = ExecutedOptions()
    """Settings of the rules `executed`."""
    judge: JudgeOptions | None = None
    """A model that is asked whether two actions do the same where `semantic` is undecided. None: they do not."""

    @model_validator(mode="after")
    def _judge_of_semantic(self) -> Self:
        if self.judge is not None and self.comparator != "semantic":
            raise ValueError(f"judge: asked by `comparator: semantic` alone, not by `{self.comparator}`")
        return self

    replay: ReplayOptions = ReplayOptions()
    """How `paddock pivot mine --replay` plays trajectories again; no request reads it."""


class PivotTask(BaseModel):
    """The expected action; every other key of the row is kept and not read."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    expected: ExpectedAction = Field(alias="expected_action")


class PivotServer(ResourcesServer[PivotConfig, PivotTask]):
    JUDGES_STEP = True
    config_type = PivotConfig
    task_type = PivotTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "Run the tests."},
        "expected_action": {"type": "function_call", "name": "bash", "arguments": '{"command": "pytest -q"}'},
        "response": {
            "output": [{"type": "function_call", "name": "bash", "arguments": '{"command": "python -m pytest -q"}'}]
        },
    }

    def __init__(self, config: PivotConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        options = config.judge
        self._judge = EquivalenceJudge(options, peers) if options else None

    _executed: "ExecutedComparator | None" = None
    _lease: "Lease[Provider] | None" = None

    async def start(self) -> None:
        if self.config.comparator == "executed":
            # Imported here: a server that runs nothing need not load sandboxes, and starts in half the time.
            from paddock.resources_servers.pivot.executed.comparator import ExecutedComparator
            from paddock.sandbox.leases import shared_provider

            self._lease = await shared_provider(self.config.executed.sandbox)
            self._executed = ExecutedComparator(self._lease.value, self.config.executed)

    async def stop(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.release()

    def read_task(self, row: Row) -> PivotTask:
        if self.config.comparator in ("semantic", "executed"):
            semantic.row_cwd(row.task)
        return PivotTask(expected=read_expected(row.task))

    async def seed_session(self, task: PivotTask, row: Row) -> Session:
        self._require_usable(task, row)
        return Session()

    async def verify(self, task: PivotTask, row: Row, response: JsonObject) -> Verdict:
        comparison = await self._compare(task, row, response)
        if self._judge is None:
            return self._verdict(task, row, comparison)
        opinion = JudgeOpinion()
        if comparison.reward < 1.0 and comparison.reason not in _NOT_READ:
            pair = await asyncio.to_thread(
                semantic.undecided_pair,
                task.expected,
                response,
                row.responses_create_params,
                self.config.semantic,
                row.task,
            )
            if pair is not None:
                opinion = await self._judge.judge(pair, row.responses_create_params)
        return self._verdict(task, row, _with_opinion(comparison, opinion))

    async def reverify(self, task: PivotTask, row: Row, response: JsonObject, verdict: Verdict) -> Verdict:
        """Judge again by what the judge said then, which the verdict holds; it is not asked."""
        comparison = await self._compare(task, row, response)
        answers = verdict.extras.get(JUDGE_ANSWERS)
        if self._judge is not None:
            opinion = JudgeOpinion(tuple(answers or ()), int(verdict.metrics.get("judge_calls", 0)))
            comparison = _with_opinion(comparison, opinion)
        return self._verdict(task, row, comparison)

    async def _compare(self, task: PivotTask, row: Row, response: JsonObject) -> ActionComparison:
        if self._executed is not None:
            return await self._executed.compare(
                task.expected, response, row.task, row.responses_create_params, self.config.semantic
            )
        if chars_of(response) > _MAX_CHARS_ON_LOOP:
            return await asyncio.to_thread(self.compare, task.expected, row, response)
        return self.compare(task.expected, row, response)

    def _verdict(self, task: PivotTask, row: Row, comparison: ActionComparison) -> Verdict:
        if comparison.reward < 1.0:
            self._require_usable(task, row)
        weak = semantic.says_only(task.expected, row.responses_create_params)
        return Verdict(
            reward=comparison.reward,
            reason=comparison.reason,
            comparator=self.config.comparator,
            detail=comparison.detail or None,
            metrics={**comparison.metrics, WEAK_ROW: float(weak)},
            extras={key: value for key, value in comparison.extras.items() if key not in row.task},
        )

    def compare(self, expected: ExpectedAction, row: Row, response: Any) -> ActionComparison:
        """Compare by the configured comparator's rules on text; pure."""
        match self.config.comparator:
            case "compat":
                return compat.compare(expected, response, self.config.compat)
            case "layered":
                return layered.compare(expected, response, self.config.layered)
            case "semantic" | "executed":
                params = row.responses_create_params
                return semantic.compare(expected, response, params, self.config.semantic, row.task)

    def oracle(self, task: PivotTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the expected action as the one turn."""
        if isinstance(task.expected, ExpectedMessage):
            return [[message_item(content_text(task.expected.content))]]
        return [[call_item(call.name, call.arguments) for call in expected_calls(task.expected)]]

    def _require_usable(self, task: PivotTask, row: Row) -> None:
        """Raise RowError when no response could match; `verify` checks it too, for callers that never seed."""
        if self.config.comparator == "semantic":
            problem = semantic.expected_problem(task.expected, row.responses_create_params)
            if problem:
                raise RowError(f"expected_action: {problem}", kind="expected_action_unusable")


def _with_opinion(comparison: ActionComparison, opinion: JudgeOpinion) -> ActionComparison:
    """Return what comes of a comparison and the judge's opinion of it."""
    metrics = {**comparison.metrics, "judge_calls": float(opinion.calls), "judge_same": float(opinion.same)}
    extras = {**comparison.extras, JUDGE_ANSWERS: list(opinion.answers)} if opinion.answers else comparison.extras
    if not opinion.same:
        return comparison._replace(metrics=metrics, extras=extras)
    return ActionComparison(1.0, "judged_same", f"{comparison.detail}; the judge says the same", metrics, extras)
