"""What a harness asks its model first, without a model or a sandbox.

Law     the harness runs as it does in a rollout; its first request ends it, as one that is too long would.
Errors  AssertionError for a harness that asks nothing.
"""

from typing import cast

from paddock.harness import ContextExceeded, Harness, RunLimits, Step, Task, Workspace
from paddock.testing.native import ModelWithoutPrograms
from paddock.types import JsonObject


class _FirstRequestModel(ModelWithoutPrograms):
    """A model that takes one request and can't answer it."""

    name = "model"

    def __init__(self) -> None:
        self.bodies: list[JsonObject] = []

    async def respond(self, body: JsonObject) -> JsonObject:
        self.bodies.append(body)
        raise ContextExceeded("longer than this model takes")


async def first_request(harness: Harness, task: Task, limits: RunLimits | None = None) -> JsonObject:
    """The body of the first call of a native harness."""

    def report(step: Step) -> None:
        raise AssertionError(f"a step without an answer: {step}")

    model = _FirstRequestModel()
    nowhere = cast("Workspace", None)  # nothing is done there before the model has answered
    await harness.run(task, nowhere, model, limits or RunLimits(), report)
    assert model.bodies, f"{type(harness).__name__} asks its model nothing"
    return model.bodies[0]
