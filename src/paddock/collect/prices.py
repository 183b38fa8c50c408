"""What rollouts cost, by prices that the user gives: there are none here.

Units   USD. Prices are per million tokens, as providers publish them.
Law     a cost is of all calls of the model that a rollout made, or there is none: not where its model has no price, nor
        where the endpoint did not count the tokens of every call.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from paddock.types import Rollout, Usage

MILLION = 1_000_000
Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TokenPrice(BaseModel):
    """Prices of one model's tokens, in USD per million."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Usd
    """Of the prompt."""
    cached_input: Usd | None = None
    """Of what the endpoint read of the prompt from its cache, in place of `input`; None: as `input`."""
    output: Usd
    """Of what the model says, its reasoning included."""

    def of(self, usage: Usage) -> float:
        """The cost of so many tokens, in USD."""
        # Some endpoints count what they read from their cache in blocks, past the prompt's end.
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        parts = ((usage.input_tokens - cached) * self.input, cached * cached_price, usage.output_tokens * self.output)
        return sum(parts) / MILLION


def cost_usd(rollout: Rollout, price: TokenPrice) -> float | None:
    """The cost of a rollout under the price of its model; None: not all of its calls were counted."""
    counted = rollout.usage != Usage() and all(turn.usage for turn in rollout.turns)
    return price.of(rollout.usage) if counted else None


def usd_text(usd: float) -> str:
    """`12.40 USD`; small amounts with three digits, as `0.00123 USD`."""
    return f"{usd:.2f} USD" if usd >= 1 or not usd else f"{usd:.3g} USD"
