"""The `on_policy_distillation` block: which teacher scores which agent's samples, and where the teachers are served.

Source  NVIDIA-NeMo/RL, `nemo_rl/algorithms/opd.py`. Theirs makes teachers on GPUs of the run; here they are servers of
        vLLM's that run already: `servers`.
Errors  values that are not allowed together are a ValidationError with what would be right.
"""

from typing import Self

from pydantic import Field, model_validator

from paddock.config import Config
from paddock.config.problems import raise_all, suggestion
from paddock.errors import ConfigError
from paddock.training.core.distillation import DistillationSettings
from paddock.training.grpo.blocks import SettingsBlock


class TeacherServer(SettingsBlock):
    """`on_policy_distillation.servers.MODEL`."""

    base_url: str = Field(pattern=r"^https?://\S+$")
    """URL of a server of vLLM's (or one that answers as it does): it gives log-probs of prompts, and tokenises."""
    api_key: str | None = None
    """Its key; None: it asks for none."""
    model: str | None = None
    """The name under which it serves the teacher; None: the key of this block."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Seconds for the scores of one sample."""
    concurrency: int = Field(default=16, ge=1)
    """Samples of one rollout worker that it scores at once."""
    max_attempts: int = Field(default=4, ge=1)
    """How often the scores of a sample are asked for before it is masked."""
    max_silence_s: float = Field(default=1800.0, gt=0)
    """Seconds without any answer, from the first call that had none, after which the next one that has none ends the
    run: a teacher that hangs ends it after this time and `timeout_s`."""


class DistillationConfig(DistillationSettings):
    """`on_policy_distillation`."""

    enabled: bool = False
    """Whether teachers score what the policy samples."""
    teacher_model_by_agent_name: dict[str, str] = {}
    """The teacher of each agent, by the agent's instance name: a key of `servers`."""
    default_teacher_alias: str | None = None
    """The name in that mapping whose teacher the agents have that are not in it; None: all have to be in it."""
    strict_agent_name_match: bool = False
    """True: all agents have to be in it in any case."""
    servers: dict[str, TeacherServer] = {}
    """Where each teacher is served, by its model as `teacher_model_by_agent_name` names it."""

    def teacher_of(self, agent: str) -> str | None:
        """The model of the agent's teacher; None: it has none."""
        teachers, default = self.teacher_model_by_agent_name, self.default_teacher_alias
        if agent in teachers or self.strict_agent_name_match or default is None:
            return teachers.get(agent)
        return teachers[default]

    def require_teachers(self, environment: Config) -> None:
        """ConfigError where an agent of the environment has no teacher, or a teacher no agent there."""
        agents = [name for name, kind, _, _ in environment.instances.values() if kind == "agents"]
        missing = [name for name in agents if self.teacher_of(name) is None]
        if not self.enabled:
            return
        if missing:
            raise ConfigError(
                f"on_policy_distillation: no teacher for {', '.join(missing)}: name one in "
                "teacher_model_by_agent_name, or a default_teacher_alias",
                kind="teacher_missing",
            )
        names = self.teacher_model_by_agent_name.keys() - {self.default_teacher_alias}
        raise_all(
            f"on_policy_distillation.teacher_model_by_agent_name: no agent `{name}`{suggestion(name, agents)}"
            for name in sorted(names - set(agents))
        )

    @model_validator(mode="after")
    def _served(self) -> Self:
        if not self.enabled:
            return self
        teachers = self.teacher_model_by_agent_name
        if not teachers:
            raise ValueError("enabled needs teacher_model_by_agent_name: which agent has which teacher")
        for model in teachers.values():
            if model not in self.servers:
                raise ValueError(
                    f"no server for the teacher {model!r}: serve it with vLLM, and set servers.{model}.base_url"
                )
        if self.default_teacher_alias is not None and self.default_teacher_alias not in teachers:
            raise ValueError(
                f"default_teacher_alias {self.default_teacher_alias!r} is not in teacher_model_by_agent_name"
            )
        return self
