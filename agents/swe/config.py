"""The block of a SWE agent. Seconds, MiB and cores, as the names say."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from paddock.sandbox import SandboxLimits, SandboxSettings
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.blocklist import BlocklistSettings
from paddock.sandbox.tunnel import TunnelSettings
from paddock.server import AgentConfig
from paddock.types import JsonObject


class SweConfig(AgentConfig):
    harness: str
    """A folder of `harnesses/`, or `package.module:Class`. None, which is YAML's bare `null`, is the folder `null`."""
    harness_config: JsonObject | None = None
    """The harness's own settings; None: its defaults."""
    agent_max_turns: int | None = Field(default=None, ge=1)
    """Model calls; None: no limit."""
    agent_max_tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens of all calls; None: no limit."""
    agent_timeout_s: float = Field(default=1800.0, gt=0)
    """For the harness; then the rollout is truncated, and what is there is graded."""
    command_timeout_s: float | None = Field(default=300.0, gt=0)
    """The most that one command may take; None: no limit of its own."""
    prompt_template: str | None = None
    """Jinja2 text, or path, of the first user message (`paddock.harness.prompts`); None: the harness's own."""
    responses_create_params: JsonObject = {}
    """Parameters of every request to the model, such as `temperature`; they go before the row's."""
    artifacts_dir: Path | None = None
    """Folder of what rollouts leave behind, one folder each; None: nothing is kept."""
    sandbox: SandboxSettings = SandboxSettings()
    limits: SandboxLimits = SandboxLimits()
    """Budgets of one sandbox."""
    admission: AdmissionSettings = AdmissionSettings()
    """How many sandboxes this machine takes at once; the others wait."""
    blocklist: BlocklistSettings = BlocklistSettings()
    tunnel: TunnelSettings = TunnelSettings()

    @field_validator("harness", mode="before")
    @classmethod
    def _bare_null(cls, given: Any) -> Any:
        return "null" if given is None else given

    @model_validator(mode="after")
    def _time_to_grade(self) -> Self:
        if self.agent_timeout_s >= self.rollout_timeout_s:
            raise ValueError(
                f"agent_timeout_s ({self.agent_timeout_s:g}) must be less than rollout_timeout_s "
                f"({self.rollout_timeout_s:g}): what the agent leaves has to be graded"
            )
        return self
