"""A policy without a model: what it says in each rollout is written down before, in tokens all the same.

Plays   one for each rollout, in the order in which rollouts ask for the first time: its answers, one after the other.
        An answer is the items of a Responses API answer; they are written as the model's chat template has them.
Tokens  of a small vocabulary, with log-probs that say nothing; the weights are the first of a run.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence

import orjson

from paddock.http import Call
from paddock.server.exact import Chunk, Equipment, ExactConfig, ExactServer
from paddock.testing.engines import JsonCallParser, ScriptedEngine
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, Vocabulary
from paddock.types import JsonObject


class ScriptedPolicyConfig(ExactConfig):
    plays: list[list[list[JsonObject]]]
    """The items of each turn of each rollout."""


class ScriptedPolicyEngine(ScriptedEngine):
    def __init__(self, vocabulary: Vocabulary, plays: Sequence[Sequence[str]]) -> None:
        super().__init__(vocabulary, lambda prompt: self._said, chunk_ids=64)
        self.version = "0"
        self._said = ""
        self._left = [iter(play) for play in plays]
        self._by_rollout: dict[str | None, Iterator[str]] = {}

    async def generate(
        self,
        prompt_ids: Sequence[int],
        params: JsonObject,
        call: Call,
        *,
        rollout: str | None,
        stream: bool = True,
    ) -> AsyncGenerator[Chunk, None]:
        if rollout not in self._by_rollout:
            self._by_rollout[rollout] = self._left.pop(0)
        self._said = next(self._by_rollout[rollout])
        async for chunk in super().generate(prompt_ids, params, call, rollout=rollout, stream=stream):
            yield chunk


class ScriptedPolicyServer(ExactServer[ScriptedPolicyConfig]):
    config_type = ScriptedPolicyConfig

    @property
    def model_name(self) -> str:
        return "played"

    async def equip(self) -> Equipment:
        vocabulary = small_vocabulary()
        template = ChatTemplate(TEMPLATES["chatml"].source, vocabulary.special_texts)
        plays = [["".join(map(_text, items)) for items in play] for play in self.config.plays]
        engine = ScriptedPolicyEngine(vocabulary, plays)
        return Equipment(engine, vocabulary, Prompter(template, vocabulary), lambda tools, prompt_ids: JsonCallParser())


def _text(item: JsonObject) -> str:
    if item["type"] == "message":
        return "".join(str(part["text"]) for part in item["content"])
    call = {"name": item["name"], "arguments": orjson.loads(item["arguments"])}
    return f"<tool_call>{orjson.dumps(call).decode()}</tool_call>"
