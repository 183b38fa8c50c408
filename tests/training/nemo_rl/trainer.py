"""A NeMo-RL of which only its chat server is there, and rows as it sends them to an environment."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.nemo_rl import Fault, NemoRlChat, Sampling

from paddock.testing.engines import EngineAnswer, ScriptedEngine
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate
from paddock.training.nemo_rl.compose import policy_keys
from paddock.types import JsonObject

SCRIPTED = "paddock.conformance.scripted:ScriptedEnvironment"
TRAINING = {"temperature": 1.0, "top_p": 1.0, "max_output_tokens": 64}


def asking(answer: str) -> JsonObject:
    """A row's own part."""
    return {"answer": answer, "responses_create_params": {"input": f"say {answer}"}}


def rows(*groups: "JsonObject | str", size: int = 1, index: int | None = 7) -> list[JsonObject]:
    """Copies of each, as `_prepare_nemo_gym_rows` leaves them; a text is the answer that is asked for, and right.
    `index`: of the first group; None: they have none."""
    made: list[JsonObject] = []
    for nth, group in enumerate(groups):
        own = asking(group) if isinstance(group, str) else group
        for _ in range(size):
            row: JsonObject = {"agent_ref": {"type": "responses_api_agents", "name": "agent"}, **own}
            params = row.get("responses_create_params")
            if isinstance(params, dict):
                row["responses_create_params"] = {**params, **TRAINING}
            made.append({**row, "_rowidx": len(made), **({} if index is None else {"_ng_task_index": index + nth})})
    return made


class StubTrainer(NamedTuple):
    """The chat server, and what an environment that asks it is told."""

    chat: NemoRlChat
    engine: ScriptedEngine
    folder: Path

    def dictionary(self, **more: Any) -> JsonObject:
        """Of a scripted environment, whose rows' `grade` says how grading goes."""
        refers = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy_model"},
        }
        return {
            "config_paths": ["responses_api_models/vllm_model/configs/vllm_model_for_training.yaml"],
            **policy_keys("policy", [self.chat.url]),
            "head_server": {"host": "0.0.0.0", "port": 5017},
            "policy_model": {"models_servers": {"openai": {"attempts": 1}}},
            "environment": {"resources_servers": {SCRIPTED: {}}},
            "agent": {"agents": {"single_step": refers}},
            "eval": {"out": str(self.folder), "retry_wait_s": 0, "max_attempts": 2, "rollout_timeout_s": 60},
            **more,
        }

    def lines(self, name: str) -> list[str]:
        """What the one start wrote down."""
        (run,) = self.folder.iterdir()
        return (run / name).read_text().splitlines()


def failing(*calls: int) -> Callable[[int], Fault | None]:
    """A fault that hits the calls of these numbers."""
    return lambda nth: "500" if nth in calls else None


class StubTokenizer:
    """A tokenizer as far as NeMo-RL's actor asks for one."""

    def batch_decode(self, lists: Sequence[Sequence[int]]) -> list[str]:
        return [small_vocabulary().decode(ids) for ids in lists]


@asynccontextmanager
async def open_trainer(folder: Path) -> AsyncIterator[StubTrainer]:
    """The policy says what it is asked to say."""
    vocabulary = small_vocabulary()
    template = ChatTemplate(TEMPLATES["chatml"].source, vocabulary.special_texts)

    def said(prompt: list[int]) -> EngineAnswer:
        found: list[str] = re.findall(r"say (\w+)", vocabulary.decode(prompt))
        return found[-1]

    engine = ScriptedEngine(vocabulary, said)
    async with NemoRlChat(engine, vocabulary, template, Sampling(1.0, 1.0)) as chat:
        yield StubTrainer(chat, engine, folder)
