"""What the benchmarks of the token record share: a server without a model, its engine, and a scripted rollout.

Answers are given ids, so that the engine tokenises nothing; texts are code-like words, a rollout's the same each time.
"""

import hashlib
import random
from pathlib import Path
from typing import Any

from benchmarks.bodies import text
from paddock.server.exact import ExactConfig
from paddock.server.exact.language import TEMPLATES
from paddock.testing.engines import SampledAnswer, ScriptedEngine, ScriptedExactServer
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter
from paddock.types import JsonObject

TOOLS: list[JsonObject] = [
    {
        "type": "function",
        "name": "bash",
        "description": "Run a command in the shell of the sandbox, and get what it writes.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
]
CHUNK_IDS = 16
"""Ids that an engine gives at once: one from each of its steps, or what came together."""


class ScriptedRollout:
    """One rollout by turn: the sampled ids, and the result of the tool that they call."""

    def __init__(self, turns: int, *, sampled: int, result_chars: int, seed: int = 0) -> None:
        self.vocabulary = small_vocabulary()
        source = (TEMPLATES / "thinking.jinja").read_text("utf-8")
        self.template = ChatTemplate(source, self.vocabulary.special_texts)
        self.prompter = Prompter(self.template, self.vocabulary)
        rng = random.Random(seed)
        end = self.vocabulary.encode(self.vocabulary.special_texts["eos_token"])
        self.answers: list[SampledAnswer] = []
        self.results: list[str] = []
        for turn in range(turns):
            arguments = f'{{"command": "sed -n {turn},+40p a.py"}}'
            call = f'<tool_call>\n{{"name": "bash", "arguments": {arguments}}}\n</tool_call>'
            tail = [*self.vocabulary.encode(f"\n</think>\n\n{call}"), *end]
            thought = self.vocabulary.encode("<think>\n" + text(rng, 6 * sampled))
            self.answers.append(SampledAnswer([*thought[: sampled - len(tail)], *tail]))
            self.results.append(text(rng, result_chars))
        self.vocabulary.encoded_chars = 0
        self.question: list[JsonObject] = [
            {"role": "system", "content": "You are a coding agent. " + text(rng, 600)},
            {"role": "user", "content": text(rng, 900)},
        ]

    def engine(self) -> ScriptedEngine:
        """Gives the answers in turn."""
        engine = ScriptedEngine(self.vocabulary, lambda _prompt: next(self._coming), chunk_ids=CHUNK_IDS)
        self.rewind()
        return engine

    def rewind(self, turn: int = 0) -> None:
        """The answers come from `turn` on."""
        self._coming = iter(self.answers[turn:])

    def server(self, folder: Path, engine: ScriptedEngine, **settings: Any) -> ScriptedExactServer:
        config = ExactConfig.model_validate({"turn_store": {"folder": folder}, **settings})
        return ScriptedExactServer(config, engine=engine, prompter=self.prompter, vocabulary=self.vocabulary)


def extend_history(history: list[JsonObject], output: list[JsonObject], result: str) -> None:
    """Add an answer, and the results of the tools that it calls, to a client's history."""
    history += output
    for item in output:
        if item["type"] == "function_call":
            history.append({"type": "function_call_output", "call_id": item["call_id"], "output": result})


def turn_file(folder: Path, secret: str) -> Path:
    """The file of a rollout's turns in the store's folder."""
    return folder / f"{hashlib.sha256(secret.encode()).hexdigest()}.jsonl"
