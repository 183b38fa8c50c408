"""What a training through a Tinker-style API does: the keys of its file.

Errors  ConfigError that names the file, the key, and what would be right.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from yaml import safe_load

from paddock.config import validate
from paddock.errors import ConfigError
from paddock.rollouts.client import POLICY
from paddock.training.core.settings import GrpoSettings
from paddock.types import JsonObject


class TinkerSettings(BaseModel):
    """One run. The key of the service is in TINKER_API_KEY."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: list[str]
    """Config files of the environments; their `rollouts` block has the options of rollouts."""
    overrides: list[str] = []
    """`key=value` over them."""
    rows: str
    """A row file, which is gone through again and again, each time in another order."""
    base_url: str | None = None
    """Where the server is; None: the client's own default, a service of its maker."""
    base_model: str
    """As the server calls it."""
    tokenizer: str | None = None
    """The model's folder; None: `base_model` is one."""
    engine: JsonObject = Field(default_factory=dict)
    """Further settings of `models_servers/function`: `tool_parser`, `reasoning_parser`, `max_model_len`, ..."""
    model_server: str = POLICY
    """The model server of the config in whose place the sampler is."""
    stop_token_ids: list[int] = []
    """Tokens that end an answer, beside those of the tokenizer."""
    max_tokens: int = Field(default=1024, ge=1)
    """Bound of each answer, in tokens, where the row has no smaller one."""
    temperature: float = Field(default=1.0, gt=0)
    """In place of the rows' own."""
    lora_rank: int = Field(default=32, ge=1)
    """Rank of the adapter that is trained."""
    steps: int = Field(ge=1)
    """Steps of the optimizer."""
    groups_per_step: int = Field(default=16, ge=1)
    """Rows whose rollouts are one step's."""
    group_size: int = Field(default=16, ge=2)
    """Rollouts of each row."""
    loss_fn: Literal["importance_sampling", "ppo", "cispo"] = "importance_sampling"
    """The server's loss, over the log-probs with which ids were sampled."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Of Adam."""
    grpo: GrpoSettings = GrpoSettings()
    """How advantages are computed: `use_leave_one_out_baseline`, `normalize_rewards`, `advantage_clip_low` and
    `advantage_clip_high` of it are read."""
    seed: int = 0
    """Of the order of rows, and of the adapter."""

    @property
    def model_folder(self) -> Path:
        """Where the tokenizer is."""
        return Path(self.tokenizer or self.base_model).expanduser()


def read_settings(file: Path, words: Sequence[str] = ()) -> TinkerSettings:
    """The settings in a YAML file. `words`: `KEY=VALUE` over its keys."""
    block: Any = safe_load(file.read_text())
    if not isinstance(block, dict):
        raise ConfigError(f"{file}: needs keys and values", kind="config_invalid")
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"{word}: needs KEY=VALUE", kind="config_invalid")
        block[key] = safe_load(value)
    return validate(TinkerSettings, block, str(file))
