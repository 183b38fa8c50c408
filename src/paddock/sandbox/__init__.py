"""Sandboxes: one protocol, several runtimes, images, a watchdog, a blocklist, a tunnel."""

from paddock.sandbox.failures import (
    BudgetExceeded,
    ImageDamaged,
    ImageMissing,
    RuntimeMissing,
    SandboxError,
    SandboxGone,
    SandboxRequestError,
)
from paddock.sandbox.layers import Patch
from paddock.sandbox.opening import open_provider
from paddock.sandbox.protocol import Connection, Listener, Provider
from paddock.sandbox.records import (
    ExecRequest,
    ExecResult,
    FileChange,
    Killed,
    Output,
    SandboxHandle,
    SandboxLimits,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.sandbox.settings import SandboxSettings

__all__ = [
    "BudgetExceeded",
    "Connection",
    "ExecRequest",
    "ExecResult",
    "FileChange",
    "ImageDamaged",
    "ImageMissing",
    "Killed",
    "Listener",
    "Output",
    "Patch",
    "Provider",
    "RuntimeMissing",
    "SandboxError",
    "SandboxGone",
    "SandboxHandle",
    "SandboxLimits",
    "SandboxRequestError",
    "SandboxSettings",
    "SandboxSpec",
    "ShellRequest",
    "ShellResult",
    "Stats",
    "open_provider",
]
