"""An exact engine whose answers are scripted, and a model server on it: ids in, ids and log-probs out, without a model.

    engine = ScriptedEngine(vocabulary, lambda prompt: "hello")
    server = ScriptedExactServer(ExactConfig(...), engine=engine, prompter=prompter, vocabulary=vocabulary)

Answers an answer is text (tokenised here, a stop token at its end) or ids as they are; what every call got and sampled
        is in `calls`. Log-probs are a function of position and id, so that a misplaced one shows.
Faults  an exception in place of an answer is raised; `CutAnswer` stops a stream in the middle, without its end. While
        `gate` is there and not set, no answer gets beyond its first ids.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import InfraError
from paddock.http import Call, Peer
from paddock.server.exact import Chunk, Equipment, ExactConfig, ExactServer, Parser
from paddock.server.exact.parsers.answer import message_delta
from paddock.server.exact.parsers.calls import CallReader
from paddock.server.exact.parsers.hermes import HERMES
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, Vocabulary
from paddock.types import FinishReason, JsonObject, WeightSpan

NO_PEERS: Mapping[str, Peer] = {}


class CutAnswer(NamedTuple):
    """An answer that breaks off after some ids."""

    text: str
    after: int


class SampledAnswer(NamedTuple):
    """Ids as they are; a stop token that is missing was not sampled."""

    ids: list[int]
    finish_reason: FinishReason = "stop"


EngineAnswer = str | SampledAnswer | CutAnswer | Exception


class EngineCall(NamedTuple):
    """One call of the engine."""

    prompt: list[int]
    sampled: list[int]
    params: JsonObject
    log_probs: list[float]


class ScriptedEngine:
    """`answer` is asked with the prompt's ids, for each call anew."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        answer: Callable[[list[int]], EngineAnswer],
        *,
        max_tokens: int | None = None,
        chunk_ids: int = 3,
        delay_s: float = 0.0,
    ) -> None:
        """`delay_s`: before each chunk."""
        self.calls: list[EngineCall] = []
        """Answers that were sampled to their end."""
        self.n_started = 0
        self.n_cancelled = 0
        """Answers whose sampling was ended from outside."""
        self.gate: asyncio.Event | None = None
        self.version = "v0"
        self._vocabulary = vocabulary
        self._answer = answer
        self._max_tokens = max_tokens
        self._chunk_ids = chunk_ids
        self._delay_s = delay_s

    @property
    def max_tokens(self) -> int | None:
        return self._max_tokens

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def generate(
        self,
        prompt_ids: Sequence[int],
        params: JsonObject,
        call: Call,
        *,
        rollout: str | None,
        stream: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        prompt = list(prompt_ids)
        self.n_started += 1
        answer = self._answer(prompt)
        if isinstance(answer, Exception):
            raise answer
        ids, finish_reason = self._ids(answer, params)
        log_probs = [log_prob(nth, token) for nth, token in enumerate(ids)]
        last = max(0, len(ids) - 1) // self._chunk_ids * self._chunk_ids
        try:
            for start in range(0, last + 1, self._chunk_ids):
                await self._wait(first=start == 0)
                if isinstance(answer, CutAnswer) and start >= answer.after:
                    raise InfraError("the stream broke", kind="upstream_connection", stage="model")
                end = start + self._chunk_ids
                if start < last:
                    yield Chunk(ids[start:end], log_probs[start:end])
                    continue
                self.calls.append(EngineCall(prompt, ids, params, log_probs))
                yield Chunk(
                    ids[start:],
                    log_probs[start:],
                    finish_reason,
                    [WeightSpan(version=self.version, start=0, end=len(ids))],
                )
        except (asyncio.CancelledError, GeneratorExit):
            self.n_cancelled += 1
            raise

    async def _wait(self, *, first: bool) -> None:
        await asyncio.sleep(self._delay_s)
        if self.gate is not None and not first:
            await self.gate.wait()

    def _ids(self, answer: str | SampledAnswer | CutAnswer, params: JsonObject) -> SampledAnswer:
        if isinstance(answer, SampledAnswer):
            return answer
        text = answer.text if isinstance(answer, CutAnswer) else answer
        ids = [*self._vocabulary.encode(text), *self._vocabulary.encode(self._vocabulary.special_texts["eos_token"])]
        limit = params.get("max_tokens")
        return (
            SampledAnswer(ids[:limit], "length") if isinstance(limit, int) and limit < len(ids) else SampledAnswer(ids)
        )


def log_prob(position: int, token: int) -> float:
    """The log-prob of a token id at a position of a scripted answer."""
    return -((position * 31 + token * 7) % 97 + 1) / 97


class JsonCallParser:
    """Reads calls in the format `hermes`, with tools or without, and a thought where there is one; all at the end."""

    def __init__(self) -> None:
        self._text: list[str] = []

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        self._text.append(text)
        return self.whole("".join(self._text), ()) if finished else None

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        before, end_mark, after = text.partition("</think>")
        thought, rest = (before, after) if end_mark else ("", text)
        reader = CallReader(HERMES, ())
        content = reader.feed(rest, finished=True).strip()
        return {"content": "", **(message_delta(thought.replace("<think>", "").strip(), content, reader.calls) or {})}


class ScriptedExactServer(ExactServer[ExactConfig]):
    """An exact server on equipment that is there already."""

    config_type = ExactConfig

    def __init__(
        self,
        config: ExactConfig,
        *,
        engine: ScriptedEngine,
        prompter: Prompter,
        vocabulary: Vocabulary,
        parser: Callable[[], Parser] = JsonCallParser,
        name: str = "policy",
        peers: Mapping[str, Peer] = NO_PEERS,
    ) -> None:
        super().__init__(config, name=name, peers=peers)
        self.engine = engine
        self._scripted_equipment = Equipment(engine, vocabulary, prompter, lambda tools, prompt_ids: parser())

    @property
    def model_name(self) -> str:
        return "scripted"

    async def equip(self) -> Equipment:
        return self._scripted_equipment


def scripted_server(
    folder: Path,
    answer: Callable[[list[int]], EngineAnswer],
    *,
    parser: Callable[[], Parser] = JsonCallParser,
    engine: ScriptedEngine | None = None,
    **config: Any,
) -> ScriptedExactServer:
    """A server with a small vocabulary and a plain template, its turns in `folder`; `engine`: in place of `answer`."""
    vocabulary = small_vocabulary()
    template = ChatTemplate(TEMPLATES["chatml"].source, vocabulary.special_texts)
    return ScriptedExactServer(
        ExactConfig.model_validate({"turn_store": {"folder": folder}, **config}),
        engine=engine or ScriptedEngine(vocabulary, answer),
        prompter=Prompter(template, vocabulary),
        vocabulary=vocabulary,
        parser=parser,
    )
