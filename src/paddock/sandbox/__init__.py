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
from paddock.sandbox.layers import Archive, Patch
from paddock.sandbox.protocol import Provider, TunnelConnection, TunnelListener
from paddock.sandbox.records import (
    ExecRequest,
    ExecResult,
    MemoryKill,
    Output,
    PathChange,
    SandboxHandle,
    SandboxLimits,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.sandbox.runtime_choice import open_local_provider, open_provider
from paddock.sandbox.settings import SandboxSettings

__all__ = [
    "Archive",
    "BudgetExceeded",
    "ExecRequest",
    "ExecResult",
    "ImageDamaged",
    "ImageMissing",
    "MemoryKill",
    "Output",
    "Patch",
    "PathChange",
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
    "TunnelConnection",
    "TunnelListener",
    "open_local_provider",
    "open_provider",
]
