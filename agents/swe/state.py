"""The state of a rollout while it is worked on, and the answer that it comes to.

Answer  a standard response: the items of all steps, or one message with the harness's last words; `model_patch`, the
        git patch of what was changed, as text (`paddock.types.patches`), or `artifacts`, where the session wants a
        state; `harness`, which one it was and what ended it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paddock.agents.swe.task_spec import TaskSpec
from paddock.agents.swe.variants import Variant
from paddock.harness import Exit, Step, WorkspaceCounts
from paddock.sandbox import Archive, Patch
from paddock.server.rollout_model import RolloutModel
from paddock.server.step_rewards import StepRewardCollector
from paddock.types import JsonObject, Row, patch_to_text
from paddock.types.artifacts import ARTIFACTS, artifacts_to_wire
from paddock.types.responses import make_response, message_item

MODEL_PATCH = "model_patch"
HARNESS = "harness"


@dataclass
class RolloutState:
    """What the stages of a rollout have produced; None: not that far yet."""

    publish: Callable[[Step], None]
    """Gets each step as it ends."""
    step_rewards: StepRewardCollector | None = None
    """Asks for each step's score."""
    variant: Variant | None = None
    task_spec: TaskSpec | None = None
    steps: list[Step] = field(default_factory=list)
    exit: Exit | None = None
    patch: Patch | None = None
    archive: Archive | None = None
    """The artifacts that the session wants, where it wants any."""
    counts: WorkspaceCounts = field(default_factory=WorkspaceCounts)
    model: RolloutModel | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files that the harness leaves beside the rollout (`paddock.harness.contract.ArtifactProducer`), by name."""

    def report(self, step: Step) -> None:
        """Record a step that has ended, publish it, and have it judged where steps are."""
        self.steps.append(step)
        self.publish(step)
        if self.step_rewards is not None:
            self.step_rewards.submit(step.turn, step.output, step.turn_id)

    def response(self, row: Row, model: str) -> JsonObject:
        """Build the final answer, a Responses API response."""
        assert self.exit is not None
        items = [item for step in self.steps for item in step.output]
        if self.exit.final is not None and not (items and items[-1].get("type") == "message"):
            items.append(message_item(self.exit.final))
        cut = self.exit.ended in ("token_limit", "context_limit", "output_limit")
        response = make_response(
            items,
            row.responses_create_params,
            model=model,
            incomplete_reason="max_output_tokens" if cut else None,
        )
        return {**response, **self._changes(), HARNESS: self.harness_report()}

    def _changes(self) -> JsonObject:
        """What was taken of the sandbox; the values are long."""
        changes: JsonObject = {}
        if self.patch is not None:
            changes[MODEL_PATCH] = patch_to_text(self.patch.data)
        if self.archive is not None:
            found = self.archive
            changes[ARTIFACTS] = artifacts_to_wire(
                found.data, found.missing, left_out=found.left_out, too_large=found.too_large
            )
        return changes

    def harness_report(self) -> JsonObject | None:
        """Say which harness ran, and how its run ended; None: it was not that far."""
        if self.variant is None or self.exit is None:
            return None
        how = self.exit.model_dump(exclude={"final"})
        return {"name": self.variant.harness, "variant": self.variant.name, **how}
