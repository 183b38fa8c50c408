"""The task that each trainer runs here: a harness with a shell in sandboxes, several turns a rollout, groups of rows.

Used    by the tests and, below the interpreters of trainers, by the scripts that they start; neither torch nor a
        trainer is imported.
Engine  `EndpointSampler` asks the endpoint of one trainer's run (`endpoint`), whose answers are the same in every run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from tests.training.nemo_rl.world import RepositoryEnvironment, RepositoryTask

from paddock.config.yaml_text import dump
from paddock.rollouts import Completion
from paddock.types import JsonObject, Row, Verdict

HARNESS = "codeact"
COMMANDS = ("ls", "pwd", "false", "cat README.md", "echo ok > notes.txt", "git diff", "cat calc.py")
"""Of the shell, as the model was taught them: what they print is the same whenever they run."""
NUMBERS = (1, 2)
"""Of the rows."""
SIZE = 4
"""Rollouts of each row."""
TURNS = 4
MAX_TOKENS = 160
"""Of one answer."""
VERSION = 3
"""Of the weights, where the engine says it."""
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "max_tokens": MAX_TOKENS}
PARSERS = {"tool_parser": "hermes", "reasoning_parser": "qwen3"}


class PaidByWorkEnvironment(RepositoryEnvironment):
    """Pays a share that differs by what was done: groups have something to compare."""

    async def verify(self, task: RepositoryTask, row: Row, response: JsonObject) -> Verdict:
        texts = [item.get("arguments") or item.get("output") or "" for item in response["output"]]
        done = len(response["model_patch"]) + sum(map(len, texts))
        return Verdict(reward=done % 64 / 64, reason="measured")


class SameTask(NamedTuple):
    """What a run is given, in a folder that its script reads."""

    config: str
    """The environment's config file."""
    model: str
    """The folder of the policy."""
    url: str
    """The endpoint of this run."""
    out: str
    """Where rollouts are written."""

    @property
    def engine(self) -> JsonObject:
        """Settings of the model server over an engine function."""
        return {"tokenizer": self.model, **PARSERS}

    def write(self, folder: Path) -> None:
        (folder / "task.json").write_text(json.dumps(self._asdict()))

    @classmethod
    def read(cls, folder: Path) -> "SameTask":
        return cls(**json.loads((folder / "task.json").read_text()))


class EndpointSampler:
    """An engine function over the endpoint of a run."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/inference/v1/generate"

    async def __call__(self, ids: Sequence[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        async with httpx.AsyncClient(timeout=300) as client:
            answer = await client.post(self._url, json={"token_ids": list(ids), "sampling_params": sampling})
        answer.raise_for_status()
        (choice,) = answer.json()["choices"]
        log_probs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        return Completion(choice["token_ids"], log_probs, choice["finish_reason"])


def agent(home: Path) -> JsonObject:
    """The block of the agent. `home`: the folder of its sandboxes' images."""
    return {
        "resources_server": {"type": "resources_servers", "name": "world"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
        "harness": HARNESS,
        "agent_max_turns": TURNS,
        "command_timeout_s": 60,
        "sandbox": {"home": str(home), "runtime": "bubblewrap"},
        "limits": {"memory_mib": 512},
    }


def servers(home: Path) -> JsonObject:
    """The servers of the environment."""
    return {
        "world": {"resources_servers": {f"{__name__}:{PaidByWorkEnvironment.__name__}": {}}},
        "agent": {"agents": {"swe": agent(home)}},
    }


def write_config(path: Path, home: Path) -> Path:
    path.write_text(dump({**servers(home), "eval": {"retry_wait_s": 0, "max_attempts": 1}}))
    return path


def rows() -> list[JsonObject]:
    params = {"input": [], "temperature": 1.0, "top_p": 1.0, "max_output_tokens": MAX_TOKENS}
    return [{"responses_create_params": params, "number": number} for number in NUMBERS]


def write_given(folder: Path, samples: Sequence[JsonObject], **more: Any) -> None:
    """`samples`: what the trainer was given, each with `ids`, `loss_mask`, `log_probs`, `reward`, and `versions` where
    it takes them."""
    (folder / "given.json").write_text(json.dumps({"samples": list(samples), **more}))
