"""The settings of the agent of tools."""

from typing import Literal

from pydantic import Field

from paddock.server import AgentConfig
from paddock.server.fields import Block


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
    functions: list[str] = []
    """Python functions that are tools beside the environment's, each as `package.module:function`."""
    chat_template_kwargs: Block = Field(default={})
    """Arguments of the chat template, such as `enable_thinking`, over a row's own and under the server's."""
