"""The block of a SWE agent. Seconds, MiB and cores, as the names say.

Mixing  one of several options (harness, prompts, tool names) is drawn for each group (`paddock.harness.draws`):

        | run_with_mixed_prompts | without agent_prompt_overrides             | with it            |
        |------------------------|--------------------------------------------|--------------------|
        | not given              | `harness` alone                            | drawn from it      |
        | true                   | drawn evenly from codeact, opencode, codex | drawn from it      |
        | false                  | `harness` alone                            | `harness` alone    |

        A list alone mixes, as it does in NeMo-Gym; there the switch is of older versions and not read by newer ones.
        An agent for validation should not mix: its score is to be one harness's.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paddock.sandbox import SandboxLimits, SandboxSettings
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.blocklist import BlocklistSettings
from paddock.sandbox.tunnel import TunnelSettings
from paddock.server import AgentConfig
from paddock.server.step_rewards import StepRewardSettings
from paddock.types import JsonObject

DEFAULT_MIX = ("codeact", "opencode", "codex")
"""The harnesses that are mixed where no list says which."""


class PromptOverride(BaseModel):
    """One option of a mix."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = Field(default=None, min_length=1)
    """What reports call it; None: by its harness, numbered from the second of that name on."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """How often it is drawn, in proportion to the others'."""
    harness: str | None = None
    """The harness of this option, named as the agent's is; None: the agent's."""
    harness_config: JsonObject | None = None
    """The harness's own settings; None: the agent's where it is the agent's harness, else its defaults."""
    user_prompt_template: str | None = None
    """Jinja2 text, or path, of the first user message; None: the agent's `prompt_template`, else the harness's own."""
    system_prompt_template: str | None = None
    """Jinja2 text, or path, of the system message; None: the harness's own."""
    diversify_tool_names: bool = False
    """Show each tool by its name or a synonym of it (`paddock.tools.SYNONYMS`), drawn too. Arguments keep theirs."""
    camel_case_tool_names: bool = False
    """Show names in Pascal case: `ExecuteBash`. NeMo-Gym calls that so."""


class SweAgentConfig(AgentConfig):
    """The settings of one SWE agent."""

    harness: str
    """A folder of `harnesses/`, or `package.module:Class`. None, which is YAML's bare `null`, is the folder `null`."""
    harness_config: JsonObject | None = None
    """The harness's own settings; None: its defaults."""
    agent_max_turns: int | None = Field(default=None, ge=1)
    """Model calls; None: no limit."""
    agent_max_tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens of all calls; None: no limit."""
    agent_timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds for the harness; then the rollout is truncated, and what is there is graded."""
    rollout_timeout_s: float = Field(default=14400.0, gt=0)
    """Seconds that one rollout may take in all, the wait for room on the machine and grading included; then its outcome
    is `infra`. A patch whose tests never end is graded after two runs into their limit and one of the reference fix."""
    command_timeout_s: float | None = Field(default=300.0, gt=0)
    """The most that one command may take; None: no limit of its own."""
    prompt_template: str | None = None
    """Jinja2 text, or path, of the first user message (`paddock.harness.prompts`); None: the harness's own."""
    run_with_mixed_prompts: bool | None = None
    """Whether to mix; None: where there is a list to draw from."""
    agent_prompt_overrides: list[PromptOverride] | None = None
    """What is drawn from; None or empty: there is no list."""
    mixing_seed: int = 0
    """Another seed, another draw for each group."""
    mix_per_rollout: bool = False
    """Draw for each member of a group. For evaluation only: rollouts with different prompts can't be compared, and a
    trainer that groups by prompt would tear the group apart; so an agent with a dataset for training can't have it."""
    responses_create_params: JsonObject = {}
    """Parameters of every request to the model, such as `temperature`; they go before the row's."""
    artifacts_dir: Path | None = None
    """Folder of what rollouts leave behind, one folder each; None: nothing is kept."""
    sandbox: SandboxSettings = SandboxSettings()
    """Where the agent's commands run."""
    limits: SandboxLimits = SandboxLimits()
    """Budgets of one sandbox."""
    admission: AdmissionSettings = AdmissionSettings()
    """How many sandboxes this machine takes at once; the others wait. With `sandbox.nodes` each node has its own."""
    blocklist: BlocklistSettings = BlocklistSettings()
    """Commands that are refused with advice before they run."""
    tunnel: TunnelSettings = TunnelSettings()
    """Bounds of the way from the sandbox to the model, which programs of a harness ask through it."""
    step_rewards: StepRewardSettings | None = None
    """A judge's votes on each step, as part of the reward. None: the reward is the environment's alone. What passes is
    told by the environment's reward in either case."""

    @field_validator("harness", mode="before")
    @classmethod
    def _bare_null(cls, given: Any) -> Any:
        return "null" if given is None else given

    @property
    def options(self) -> Sequence[PromptOverride]:
        """What is drawn from; empty: nothing is drawn."""
        if self.run_with_mixed_prompts is False:
            return []
        even = DEFAULT_MIX if self.run_with_mixed_prompts else ()
        return self.agent_prompt_overrides or [PromptOverride(harness=name) for name in even]

    @field_validator("agent_prompt_overrides")
    @classmethod
    def _named_once(cls, given: list[PromptOverride] | None) -> list[PromptOverride] | None:
        names = [option.name for option in given or () if option.name is not None]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two options are named {twice!r}")
        return given

    @model_validator(mode="after")
    def _groups_stay_whole(self) -> Self:
        if self.mix_per_rollout and any(dataset.type == "train" for dataset in self.datasets):
            raise ValueError("mix_per_rollout: not for training, where a group's rollouts must have the same prompt")
        return self

    @model_validator(mode="after")
    def _time_to_grade(self) -> Self:
        if self.agent_timeout_s >= self.rollout_timeout_s:
            raise ValueError(
                f"agent_timeout_s ({self.agent_timeout_s:g}) must be less than rollout_timeout_s "
                f"({self.rollout_timeout_s:g}): what the agent leaves has to be graded"
            )
        return self
