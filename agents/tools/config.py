"""The settings of the agent of tools."""

import re
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from paddock.sandbox import SandboxLimits, SandboxSettings
from paddock.sandbox.admission import AdmissionSettings
from paddock.server import AgentConfig, Reference
from paddock.server.fields import Block
from paddock.types import JsonObject

RESERVED = ("environment", "functions")
"""Names of other sources of tools."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PROCESS = ("args", "env", "runs_in", "image")
_HTTP = ("headers", "token")


class McpServerConfig(BaseModel):
    """One MCP server: a command, which each rollout starts for itself, or the URL of one that runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | None = None
    """The program of a server over stdio."""
    args: list[str] = []
    """Its arguments."""
    env: dict[str, str] = {}
    """Its variables, beside the image's, or beside the usual ones of the agent's where it is its child."""
    runs_in: Literal["sandbox", "agent"] = "sandbox"
    """`sandbox`: in one of its own, with no network; `agent`: as a child of the agent's process, with its user's files
    and network, so for servers that are trusted with what the model asks of them."""
    image: str | None = None
    """Image of its sandbox, which needs bash; None: that of the environment's session."""
    url: str | None = None
    """URL of a server over streamable HTTP, such as http://127.0.0.1:8000/mcp."""
    headers: dict[str, SecretStr] = {}
    """Headers of each request to it."""
    token: SecretStr | None = None
    """Bearer token of each request to it."""
    connect_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds from its start to its list of tools; then the rollout's outcome is `infra`."""
    max_message_mib: int = Field(default=32, ge=1)
    """MiB of one message of a server in a sandbox or at a URL; a longer one is read no further, and the rollout's
    outcome is `infra`."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either `command` or `url`")
        foreign = [name for name in (_HTTP if self.url is None else _PROCESS) if name in self.model_fields_set]
        if foreign:
            raise ValueError(f"`{foreign[0]}` goes with `{'url' if self.url is None else 'command'}`")
        return self

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("needs the URL of a running server, such as http://127.0.0.1:8000/mcp")
        return value

    @property
    def is_boxed(self) -> bool:
        return self.command is not None and self.runs_in == "sandbox"


class SimulatedUserConfig(BaseModel):
    """A user of the policy that a model plays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_server: Reference
    """The model that plays it. Its calls are recorded nowhere: no token of it is trained on."""
    prompt_template: str
    """Jinja2 text, or path, of what that model is told of its part: `{{ task.FIELD }}` is a field of the row that the
    environment shows to agents (`visible`), and the policy never sees; `{{ stop_phrase }}` ends the talk."""
    stop_phrase: str = Field(default="###STOP###", min_length=1)
    """The rollout is finished with a message of the user that has it; the policy does not see that message."""
    max_messages: int = Field(default=20, ge=1)
    """Messages of the user, after which the policy's next answer ends the rollout as `truncated`."""
    greeting: str = Field(default="Hi! How can I help you today?", min_length=1)
    """What the user's model answers first, where the row's `input` has no message of a user."""
    responses_create_params: JsonObject = {}
    """Parameters of each request to the user's model, such as `temperature`."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds that one message may take; then the rollout's outcome is `infra`."""


class ToolsAgentConfig(AgentConfig):
    max_turns: int | None = Field(default=30, ge=1)
    """Model calls of a rollout; then it is `truncated`, and judged by what was done. None: as many as it makes."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens of a rollout, as the engine counts them; then as for `max_turns`. None: no limit."""
    tool_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds that one call of a tool may take; then the rollout's outcome is `infra`."""
    max_result_chars: int | None = Field(default=100_000, ge=1)
    """Characters of a tool's result that the model is shown: half of them from its start, half from its end, and
    between them a line that counts those left out. None: all."""
    reasoning_alone: Literal["ends", "continues"] = "ends"
    """After an answer of reasoning with neither call nor text: `ends` the run, as any answer without a call, or
    `continues`: the model is asked again, with the reasoning in its history."""
    concurrent_calls: bool = False
    """Whether the calls of one answer run side by side; else one after the other, in their order."""
    environment_steps: bool = False
    """Whether each answer of the model is an action, whole, which the environment replies to (`/reset` and `/step`, as
    Gymnasium has it), until it ends the episode; it runs no single calls, and the agent has no tools beside it."""
    functions: list[str] = []
    """Python functions that are tools beside the environment's, each as `package.module:function`."""
    mcp_servers: dict[str, McpServerConfig] = {}
    """MCP servers whose tools are the agent's, by name. Needs the extra `mcp`."""
    tool_images: Literal["refuse", "pass"] = "refuse"
    """Images in a tool's result: `pass` them to the model, which has to take them; `refuse`: the rollout's outcome is
    `infra`."""
    user: SimulatedUserConfig | None = None
    """Who replies to the policy's answers without calls; None: such an answer ends the rollout."""
    sandbox: SandboxSettings = SandboxSettings()
    """Where MCP servers run that do so in sandboxes."""
    limits: SandboxLimits = SandboxLimits()
    """Budgets of one such sandbox."""
    admission: AdmissionSettings = AdmissionSettings()
    """How many of them this machine takes at once; rollouts wait for theirs. With `sandbox.nodes` each node has its
    own."""
    chat_template_kwargs: Block = Field(default={})
    """Arguments of the chat template, such as `enable_thinking`, over a row's own and under the server's."""

    @model_validator(mode="after")
    def _steps_alone(self) -> Self:
        beside = [name for name in ("functions", "mcp_servers", "user") if getattr(self, name)]
        if self.environment_steps and beside:
            raise ValueError(f"`{beside[0]}` has no part where the environment replies to whole answers: drop one")
        return self

    @field_validator("mcp_servers")
    @classmethod
    def _names(cls, given: dict[str, McpServerConfig]) -> dict[str, McpServerConfig]:
        for name in given:
            if not NAME.fullmatch(name) or name in RESERVED:
                raise ValueError(f"{name!r}: a name has letters, digits, `-` and `_`, and is none of {RESERVED}")
        return given
