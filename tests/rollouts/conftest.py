"""A scripted environment, a model folder, and engine functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.config import Config, load
from paddock.rollouts import Completion
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.types import JsonObject

SCRIPTED = "paddock.conformance.scripted"
Environment = Callable[..., Config]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A config whose rows are right where the model says `yes`. `eval_block`: over ours."""
    model = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)

    def make(**eval_block: Any) -> Config:
        refers = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy_model"},
        }
        tree = {
            "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
            "agent": {"agents": {"single_step": refers}},
            "policy_model": {"models_servers": {"function": {"function": "none:none", "tokenizer": str(model)}}},
            "eval": {"retry_wait_s": 0, "max_attempts": 1, **eval_block},
        }
        return load([], extra=tree)

    return make


@pytest.fixture
def engine_settings(tmp_path: Path) -> JsonObject:
    return {"tokenizer": str(tmp_path / "model")}


def row(answer: str = "yes", **task: Any) -> JsonObject:
    request = {"input": [{"role": "user", "content": "Yes or no?"}]}
    return {"responses_create_params": request, "answer": answer, **task}


def completion(text: str, version: int | None = None) -> Completion:
    """The text and the stop token, each id with a log-prob of its own."""
    vocabulary = small_vocabulary()
    ids = [*vocabulary.encode(text), *vocabulary.encode("<|im_end|>")]
    return Completion(ids, [-(nth + 1) / 8 for nth in range(len(ids))], "stop", version)
