"""One rollout as NeMo-RL trains on it, and the rules that it may break.

Source  NVIDIA-NeMo/RL, `nemo_rl/environments/nemo_gym.py` (`_postprocess_nemo_gym_to_nemo_rl_result`) and
        `nemo_rl/experience/rollouts.py`.
Shapes  ids and log-probs are flat, one log-prob per generated id. Plain lists: whoever needs arrays makes them.
Law     a `Result` is the inline form of a rollout (`paddock.tokens.export.inline`): what NeMo-RL gets from an agent.
        A `Violation` names one rule, and where in the result it is broken.
"""

from typing import Literal, NamedTuple

from paddock.types import JsonObject

Result = JsonObject


class LoggedMessage(NamedTuple):
    """One message of NeMo-RL's `message_log`."""

    role: Literal["user", "assistant"]
    """`user`: the prompt's ids since the last message; `assistant`: what was generated."""
    token_ids: list[int]
    generation_log_probs: list[float] | None = None
    """The log-probs of an assistant's ids, one per id."""
    is_invalid_tool_call: bool = False
    has_malformed_thinking: bool = False


class ProcessedResult(NamedTuple):
    """One result as NeMo-RL trains on it."""

    messages: tuple[LoggedMessage, ...]
    """User and assistant in turn; the first is the prompt by which NeMo-RL groups."""
    reward: float
    masked: bool
    """`instance_config.mask_sample`."""

    @property
    def first_prompt(self) -> list[int]:
        return self.messages[0].token_ids


class Violation(NamedTuple):
    """A rule that a result, or a group of them, breaks."""

    rule: str
    """Its name, such as `contiguous`."""
    text: str
    """What is wrong, and what would be right."""
    item: int | None = None
    """Index in `response.output`."""
    turn: int | None = None
    """Among the items with ids, from 0."""
    token: int | None = None
    """Index of the first id or log-prob that is wrong, in its own list."""

    def __str__(self) -> str:
        named = (("item", self.item), ("turn", self.turn), ("token", self.token))
        where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
        return f"{self.rule}{f' ({where})' if where else ''}: {self.text}"
