"""A trainer's own engine as an exact model server: an asynchronous function takes ids, and gives ids with log-probs.

Law     that of `paddock.server.exact`; the function's form is that of `paddock.server.exact.functions`.
Errors  those of the function; ConfigError for a function, a tokenizer, a chat template or a parser that is not there.
"""

from pydantic import Field

from paddock.server.exact import Equipment, ExactServer
from paddock.server.exact.functions import EngineFunctionServer, FunctionEngine, find_function
from paddock.server.exact.language import LanguageConfig, equipment
from paddock.server.exact.relay import RelayedEngine, relay_in_use


class FunctionConfig(LanguageConfig):
    """One model, sampled by a function."""

    model: str = "policy"
    """Name of the model as clients see it; its folder, where `tokenizer` names none."""
    function: str
    """`package.module:attribute` of the function, or the name under which a trainer registered it in this process."""
    max_model_len: int | None = Field(default=None, ge=2)
    """Longest sequence in tokens, prompt and answer together; None: the function's own matter."""
    max_concurrency: int = Field(default=1024, ge=1)
    """Calls of the function that run at once; further ones wait."""
    first_retry_s: float = Field(default=0.05, ge=0)
    """Seconds before an answer that the function aborted is continued; twice as long, up to 2, each time that nothing
    came since the abort before."""


class FunctionServer(ExactServer[FunctionConfig], EngineFunctionServer):
    config_type = FunctionConfig

    @property
    def model_name(self) -> str:
        return self.config.model

    def make_engine(self) -> FunctionEngine:
        config = self.config
        return FunctionEngine(
            find_function(config.function),
            max_tokens=config.max_model_len,
            max_concurrency=config.max_concurrency,
            first_retry_s=config.first_retry_s,
        )

    async def equip(self) -> Equipment:
        relay = relay_in_use()
        if relay is None:
            return equipment(self.config, self.name, self.make_engine())
        return equipment(self.config, self.name, RelayedEngine(relay, self.name, max_tokens=self.config.max_model_len))
