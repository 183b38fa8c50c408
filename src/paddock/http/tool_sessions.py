"""What an agent asks of an environment within one session, calls of its tools or whole steps, and what that answers.

Law     a call is named by its `call_id`: asked again under the same one it is not run again, but answered as before.
        What a model did wrong is a text for the model with its kind in `problem`; what the environment did wrong is an
        error, never a text.
Source  NeMo-Gym's `POST /<tool>`, with the session in the path in place of a cookie, and the raw arguments in place of
        parsed ones, so that those that are no JSON arrive too; its `POST /step` of `resources_servers/gymnasium`.
"""

from typing import Literal

from pydantic import Field

from paddock.types import JsonObject, Record

ToolProblem = Literal["bad_json", "unknown_tool", "bad_arguments"]
"""What was wrong with a call that no tool could take."""


class SessionCall(Record):
    """One call of a tool."""

    name: str
    arguments: str
    """As the model wrote them."""
    call_id: str
    """Of the caller's making, unique in the session: a model's own ids may repeat."""


class SessionCallResult(Record):
    """What the model gets to see of a call, and what it means for the rollout."""

    text: str
    problem: ToolProblem | None = None
    done: bool = False
    """Whether the tool ends the rollout: nothing is asked of the model after it."""


class SessionStep(Record):
    """One answer of the model, whole: the action of an environment that is stepped (Gymnasium's `step`)."""

    response: JsonObject
    """The answer, by the Responses API."""
    call_id: str
    """As a call's."""


class SessionStepResult(Record):
    """What an environment does after an answer. Its reward stays with it until the session is judged."""

    items: list[JsonObject] = Field(default_factory=list)
    """Results of the answer's calls and messages of a user, which the model sees next."""
    refused: bool = False
    """Whether the answer was no action that the environment takes; it is as it was."""
    done: bool = False
    """Whether the episode has ended."""
    truncated: bool = False
    """Whether a limit of the environment's ended it."""
