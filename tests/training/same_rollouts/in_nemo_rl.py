"""The task in our actor, as NeMo-RL calls it: behind NeMo-RL's chat server, in a real Ray."""

import asyncio
from pathlib import Path

from tests.support.nemo_rl import NemoRlChat, Sampling
from tests.support.real_vllm import MAX_TOKENS as CONTEXT
from tests.training.nemo_rl.ray_actor import actor_input, drive_actor
from tests.training.nemo_rl.trainer import rows as prepared_rows
from tests.training.same_rollouts.conftest import SameRun
from tests.training.same_rollouts.task import MAX_TOKENS, PARSERS, SIZE, EndpointSampler, rows, servers

from paddock.server.exact.functions import FunctionEngine
from paddock.server.exact.parsers import answer_parsers
from paddock.tokens import ChatTemplate, Vocabulary
from paddock.types import JsonObject

SOME_TOOL: JsonObject = {"type": "function", "function": {"name": "any", "parameters": {"type": "object"}}}


def given_samples(run: SameRun, python: str) -> list[JsonObject]:
    """The message logs that NeMo-RL is given, joined."""
    return asyncio.run(_given_samples(run, python))


async def _given_samples(run: SameRun, python: str) -> list[JsonObject]:
    vocabulary = Vocabulary.load(Path(run.task.model))
    assert vocabulary.chat_template is not None
    template = ChatTemplate(vocabulary.chat_template, vocabulary.special_texts)
    parsers = answer_parsers(vocabulary, **PARSERS)
    async with NemoRlChat(
        FunctionEngine(EndpointSampler(run.task.url)),
        vocabulary,
        template,
        Sampling(1.0, 1.0),
        max_model_len=CONTEXT,
        parser=lambda: parsers([SOME_TOOL], ()),
    ) as chat:
        asked = prepared_rows(*rows(), size=SIZE, index=0)
        for row in asked:
            row["responses_create_params"]["max_output_tokens"] = MAX_TOKENS
        given = actor_input(servers(run.home), url=chat.url, model=Path(run.task.model), rows=asked, folder=run.folder)
        told = await asyncio.to_thread(drive_actor, python, given)
        assert chat.refused == []
    return [_joined(one) for one in sorted(told["streamed"], key=lambda one: int(one["index"]))]


def _joined(streamed: JsonObject) -> JsonObject:
    """A message log as one sample."""
    return {
        "ids": [token for message in streamed["messages"] for token in message["token_ids"]],
        "loss_mask": [
            int(message["role"] == "assistant") for message in streamed["messages"] for _ in message["token_ids"]
        ],
        "log_probs": [
            log_prob
            for message in streamed["messages"]
            for log_prob in message.get("generation_logprobs") or [0.0] * len(message["token_ids"])
        ],
        "reward": streamed["reward"],
    }
