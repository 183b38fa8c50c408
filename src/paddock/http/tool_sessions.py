"""The calls of an environment's tools within one session: what an agent asks, and what the environment answers.

Law     a call is named by its `call_id`: asked again under the same one it is not run again, but answered as before.
        What a model did wrong is a text for the model with its kind in `problem`; what the environment did wrong is an
        error, never a text.
Source  NeMo-Gym's `POST /<tool>`, with the session in the path in place of a cookie, and the raw arguments in place of
        parsed ones, so that those that are no JSON arrive too.
"""

from typing import Literal

from paddock.types import Record

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
