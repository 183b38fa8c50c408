"""What a harness is: the loop, or the program, inside an agent that talks to the model and acts on a workspace.

Contract a harness gets a task in words, a workspace to act on, a model of its own, and limits. The model knows the
        rollout, so every call is recorded whatever the harness sends; it never sees token ids.
Outcome it returns how it ended. A tool's error is a text for the model; a failure of the workspace or the model server
        is raised, and ends the rollout as nobody's fault but the machine's.
Source  one folder in `harnesses/`, one class in its `__all__`; config names the folder, or `my_pkg.mod:Class`.
"""

from paddock.harness.contract import (
    ContextExceeded,
    Exit,
    ExitReason,
    Gold,
    Harness,
    MalformedCall,
    Model,
    ModelEndpoint,
    Needs,
    OnStep,
    OracleHarness,
    ProgramHarness,
    PromptedHarness,
    Prompts,
    RequestFilter,
    RunLimits,
    ShellSession,
    SideRequest,
    SolutionScript,
    Step,
    Task,
    Workspace,
)
from paddock.harness.factory import harness_class, make_harness, needs_of
from paddock.harness.programs.program import Program
from paddock.harness.prompts import Template
from paddock.harness.results import REFUSED_CODE, ExecOutput, ProgramOutput, ShellOutput
from paddock.harness.workspace import SandboxWorkspace, WorkspaceCounts

__all__ = [
    "REFUSED_CODE",
    "ContextExceeded",
    "ExecOutput",
    "Exit",
    "ExitReason",
    "Gold",
    "Harness",
    "MalformedCall",
    "Model",
    "ModelEndpoint",
    "Needs",
    "OnStep",
    "OracleHarness",
    "Program",
    "ProgramHarness",
    "ProgramOutput",
    "PromptedHarness",
    "Prompts",
    "RequestFilter",
    "RunLimits",
    "SandboxWorkspace",
    "ShellOutput",
    "ShellSession",
    "SideRequest",
    "SolutionScript",
    "Step",
    "Task",
    "Template",
    "Workspace",
    "WorkspaceCounts",
    "harness_class",
    "make_harness",
    "needs_of",
]
