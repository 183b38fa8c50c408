"""What a harness gets of a row: the prompt, and what the environment lets an agent see.

Law     all of it comes from the session and the variant; of the row, only the model's parameters are looked at. So the
        same session and variant give the same words.
Errors  RowError for a session without an image or without a problem.
"""

from typing import Any, NamedTuple, cast

from paddock.agents.swe.variants import Variant
from paddock.errors import RowError
from paddock.harness import Task
from paddock.sandbox import SandboxLimits, SandboxSpec
from paddock.types import EndState, JsonObject, Session

SERVER_KEYS = ("network",)
"""Keys of a session that tell the agent server what to do; no harness sees them."""
NOT_PARAMS = frozenset({"input", "instructions", "metadata", "model", "stream", "store", "tools", "tool_choice"})
"""Keys of a row's request that the harness itself decides, or that are no parameters."""


class TaskSpec(NamedTuple):
    """A row's task for the harness, and the sandbox that it is worked on in."""

    task: Task
    sandbox: SandboxSpec
    end_state: EndState | None
    """What the environment wants of the sandbox at the end; None: a patch."""
    time_s: float | None
    """Seconds for the harness by the task; None: it says nothing of them."""


def task_spec_of(session: Session, variant: Variant, limits: SandboxLimits, params: JsonObject) -> TaskSpec:
    """Build the task and the sandbox that a session describes. `params` are a request's; only the model's are kept.

    Raises RowError for a session without an image or a problem statement.
    """
    if not session.image:
        raise RowError("the environment names no image: this agent works in a sandbox", kind="no_image")
    if session.memory_mib and limits.memory_mib and session.memory_mib > limits.memory_mib:
        raise RowError(
            f"the task names {session.memory_mib} MiB of memory, the agent's limits.memory_mib is {limits.memory_mib}",
            kind="memory_over_limit",
        )
    visible = {name: value for name, value in session.visible.items() if name not in SERVER_KEYS}
    if not visible.get("problem_statement"):
        raise RowError("problem_statement: the environment shows none", kind="no_problem")
    workdir = session.workdir or "/"
    program = variant.program
    sandbox = SandboxSpec(
        image=session.image,
        workdir=workdir,
        env=session.env,
        limits=limits.model_copy(update={"memory_mib": session.memory_mib}) if session.memory_mib else limits,
        network=cast("Any", session.visible.get("network", "none")),
        programs=[program.folder] if program and program.where == "inside" else [],
        labels={"instance": str(visible.get("instance_id", ""))},
    )
    names = variant.tool_names
    task = Task(
        prompt=variant.user.render(visible, workdir, names),
        system=variant.system.render(visible, workdir, names) if variant.system else None,
        params={name: value for name, value in params.items() if name not in NOT_PARAMS and value is not None},
        tool_names=names,
        tools=session.tools,
        visible=visible,
    )
    return TaskSpec(task, sandbox, session.end_state, session.agent_timeout_s)
