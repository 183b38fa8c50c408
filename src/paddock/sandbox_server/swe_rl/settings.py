"""Settings of `paddock sandbox swe-rl`: the keys of its file.

Units   in the field names.
"""

from pydantic import BaseModel, ConfigDict, Field

from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.settings import SandboxSettings


class SweRlSettings(BaseModel):
    """What clients of the swe-rl recipe get."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    """Where sandboxes are made: on this machine, or on `nodes`."""
    limits: SandboxLimits = SandboxLimits()
    """Of each sandbox."""
    workdir: str = Field(default="/testbed", pattern="^/")
    """Where the repository of an image lies, for requests that do not say it."""
    scrub: bool = True
    """Take out of an image what would tell the fix, such as its later history, before an agent gets it."""
    max_sandboxes: int = Field(default=16, ge=1)
    """Sandboxes at the same time; who asks for one more waits."""
    queue_timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that a request waits for a sandbox to become free; then it is answered 503, and the client asks again."""
    claim_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds after which a sandbox ends that nobody has asked anything of: its client never got the answer."""
    lease_timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds without a request or heartbeat after which a sandbox ends; longer than a model's answer takes."""
    max_output_kib: int = Field(default=4096, ge=2)
    """KiB that a command's answer has of either stream; what lies between its start and its end is left out."""
    evaluate_attempts: int = Field(default=3, ge=1)
    """Sandboxes in which an evaluation is tried, where the machine's failure ended the one before."""
    evaluate_unpatched: bool = True
    """Run a script that ended with 0 once more without any patch, once per image and script: where that is 0 too, it
    tells nothing, and the evaluation is an error."""
    max_concurrent_gradings: int = Field(default=2, ge=1)
    """Patches of known rows (`--rows`) that are graded at the same time."""
