"""What the scenes share: a tiny model, rows, and engines that answer from a script.

It runs under the interpreter of TRL's environment, in processes that tests start.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from paddock.rollouts import Completion, RolloutClient, RolloutOptions, open_rollouts
from paddock.testing.templates import TEMPLATES
from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save

ROOT = Path(__file__).parents[3]
PIVOT = ROOT / "resources_servers/pivot"
ROWS = [orjson.loads(line) for line in (PIVOT / "data/example.jsonl").read_bytes().splitlines()[:1]] * 3


class TrlWorld:
    """A folder with a random model, and what its model says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = ROWS
        self.tokenizer = make_tokenizer([str(ROWS)], 600)
        self.model = make_model(self.tokenizer, 0, max_position_embeddings=8192)
        self.model_folder = folder / "model"
        save(self.model, self.tokenizer, TEMPLATES["chatml"].source, self.model_folder)

    def ids(self, text: str) -> list[int]:
        """A text, with the token that ends it."""
        return [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]

    def right_call(self, row: dict[str, Any]) -> list[int]:
        action = row["expected_action"]
        call = {"name": action["name"], "arguments": orjson.loads(action["arguments"])}
        return self.ids(f"<tool_call>\n{orjson.dumps(call).decode()}\n</tool_call>")

    def open(self, engine: "NumberedEngine", **options: Any) -> RolloutClient:
        return open_rollouts(
            PIVOT / "configs/pivot.yaml",
            "eval.max_attempts=1",
            engine=engine,
            engine_settings={"tokenizer": str(self.model_folder), "tool_parser": "hermes", "max_model_len": 8000},
            options=RolloutOptions(out=str(self.folder / "rollouts"), **options),
        )


class NumberedEngine:
    """An engine function: `answer(number of the call)`, counted from 0, gives ids; None: it raises."""

    def __init__(
        self,
        answer: Callable[[int], list[int] | None],
        *,
        delay_s: float = 0.0,
        label: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        """`label`: of the weights, by the number of the call."""
        self.calls = self.running = self.most_running = self.cancelled = 0
        self._answer = answer
        self._delay_s = delay_s
        self._label = label

    async def __call__(self, ids: list[int], sampling: Any, *, rollout: str | None) -> Completion:
        number = self.calls
        self.calls += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self._delay_s)
            sampled = self._answer(number)
            if sampled is None:
                raise RuntimeError("no answer")
            log_probs = [-0.01 * (1 + (number * 7 + place) % 50) for place in range(len(sampled))]
            return Completion(sampled, log_probs, weight_version=self._label(number))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


def mixed(world: TrlWorld, *, every_fails: int | None = None) -> Callable[[int], list[int] | None]:
    """Right and wrong calls by turns of three; each `every_fails`-th call fails."""
    right, wrong = world.right_call(ROWS[0]), world.ids("I would look at the file first.")

    def answer(number: int) -> list[int] | None:
        if every_fails is not None and number % every_fails == 0:
            return None
        return wrong if number % 3 else right

    return answer
