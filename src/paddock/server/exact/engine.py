"""What a plugin gives an exact model server: an engine that takes ids and gives ids, and a parser of what it sampled.

Shapes  ids in, chunks of sampled ids with one log-prob each out, the last with a finish reason. The stop token that
        ended an answer is among its sampled ids.
Units   natural log-probs of the sampling distribution; seconds.
Experts asked for by the parameter `routed_experts_start`, the position in the sequence from which rows are wanted. The
        last chunk has them up to the last but one token (see `paddock.types.routed_experts`).
Errors  those of an engine are InfraError (kinds of `paddock.server.upstream_failures`), or a RequestError
        `context_length_exceeded` where the prompt leaves no room. A stream that ends without a finish reason raises.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from paddock.http import Call
from paddock.types import FinishReason, JsonObject, RoutedExperts, WeightSpan

ROUTED_EXPERTS_START = "routed_experts_start"


class Chunk(NamedTuple):
    """Ids that were sampled since the chunk before."""

    ids: list[int]
    log_probs: list[float]
    finish_reason: FinishReason | None = None
    """None: more is to come. `tool_calls` is the parser's business: an engine says `stop`."""
    versions: Sequence[WeightSpan] = ()
    """Of the whole answer, in order; with the last chunk, where the engine gives them."""
    cached_tokens: int = 0
    """Of the prompt, read from the engine's prefix cache; with the last chunk."""
    routed_experts: RoutedExperts | None = None
    """With the last chunk, where they were asked for."""


class TokenEngine(Protocol):
    """Samples from ids."""

    async def start(self) -> None:
        """Ready to sample when it returns."""
        ...

    async def stop(self) -> None: ...

    @property
    def max_tokens(self) -> int | None:
        """Longest sequence, prompt and answer together; None: unknown."""
        ...

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: JsonObject,
        call: Call,
        *,
        rollout: str | None,
        stream: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        """One answer. `params`: sampling parameters under the names of the Chat API (`temperature`, `top_p`, `top_k`,
        `min_p`, `seed`, `stop`, penalties, `max_tokens`), those that the client or the config gave. `rollout` keeps to
        one replica. `stream`: ids come as they are sampled; else they may come all at once. Closing
        the generator ends the sampling."""
        ...


class Parser(Protocol):
    """Reads one answer. Either `feed`, again and again, or `whole`, once."""

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        """What new text (without stop tokens) says, as the `delta` of a Chat Completions chunk: `reasoning_content`,
        `content`, `tool_calls` with `index`, and `function.name` before `function.arguments`; None: nothing yet."""
        ...

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        """What a whole answer says, as a chat message: `reasoning_content`, `content`, `tool_calls`."""
        ...


class ParserFactory(Protocol):
    """Makes a parser for each answer."""

    def __call__(self, tools: Sequence[JsonObject], prompt_ids: Sequence[int]) -> Parser:
        """`tools`: as the chat template got them; `prompt_ids`: they may end within the reasoning."""
        ...
