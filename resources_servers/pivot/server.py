"""Pivot: one step of an expert trajectory, rewarded when the policy's action does what the expert's did.

Source  PivotRL, arXiv:2603.21383; NeMo-Gym's two pivot servers, whose rows it takes unchanged.
Row     the history up to the step in `responses_create_params`, the expert's action in `expected_action`; with `cwd`
        (absolute path, here or in `metadata`) the directory in which its tools run.
Reward  by the comparator that the config names (`compat`, `layered`, `semantic`, `executed`); the verdict names it too.
Time    a long response is judged in a thread, so that no other request waits for it.
Weak    a row whose expert only says something (a message, last words, a question, a thought, a plan) has the metric
        `weak_row`: that words say the same is a rule of thumb.
Errors  a row without a usable expected action is RowError: dropped, never scored 0. Whatever the policy sent is judged.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import RowError
from paddock.resources_servers.pivot import compat, layered, semantic
from paddock.resources_servers.pivot.compat import CompatOptions
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.layered import LayeredOptions
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


class PivotTask(BaseModel):
    """The expected action; every other key of the row is kept and not read."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    expected: ExpectedAction = Field(alias="expected_action")


class PivotServer(ResourcesServer[PivotConfig, PivotTask]):
    config_type = PivotConfig
    task_type = PivotTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "Run the tests."},
        "expected_action": {"type": "function_call", "name": "bash", "arguments": '{"command": "pytest -q"}'},
        "response": {
            "output": [{"type": "function_call", "name": "bash", "arguments": '{"command": "python -m pytest -q"}'}]
        },
    }

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
        return PivotTask.model_construct(expected=read_expected(row.task))

    async def seed_session(self, task: PivotTask, row: Row) -> Session:
        self._require_usable(task, row)
        return Session()

    async def verify(self, task: PivotTask, row: Row, response: JsonObject) -> Verdict:
        if self._executed is not None:
            comparison = await self._executed.compare(
                task.expected, response, row.task, row.responses_create_params, self.config.semantic
            )
        elif chars_of(response) > _MAX_CHARS_ON_LOOP:
            comparison = await asyncio.to_thread(self.compare, task.expected, row, response)
        else:
            comparison = self.compare(task.expected, row, response)
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
