"""verl itself on a CPU: a config of it, a client of its servers that answers from a script, batches of rows.

It runs under the interpreter of verl's environment, in processes that tests start.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import verl.trainer
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData, NonTensorStack
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from paddock.testing.templates import TEMPLATES
from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save
from paddock.training.verl.rows import COLUMN, dataset_line
from paddock.training.verl.settings import ESTIMATOR

ROOT = Path(__file__).parents[3]
PIVOT = ROOT / "resources_servers/pivot"
ROWS = [orjson.loads(line) for line in (PIVOT / "data/example.jsonl").read_bytes().splitlines()[:3]]
ENTRY = """
- name: paddock
  _target_: paddock.training.verl.agent_loop.PaddockAgentLoop
  environment:
    config: [{config}]
    overrides: [eval.max_attempts=1]
    engine: {engine}
    options: {{out: {out}, {options}}}
"""
HERMES = {"tool_parser": "hermes"}


def right_call(row: dict[str, Any]) -> str:
    """The text of the call that the row's expert made."""
    action = row["expected_action"]
    call = {"name": action["name"], "arguments": orjson.loads(action["arguments"])}
    return f"<tool_call>\n{orjson.dumps(call).decode()}\n</tool_call>"


class World:
    """A model folder with a tokenizer, the config of verl's trainer over it, and an agent loop config of ours."""

    def __init__(
        self,
        folder: Path,
        *changes: str,
        prompt_length: int = 4000,
        response_length: int = 160,
        n: int = 4,
        mode: str = "whole",
        max_rollouts: int = 64,
        environment: str | Path = PIVOT / "configs/pivot.yaml",
        engine: Mapping[str, Any] = HERMES,
        model: Path | None = None,
        out: Path | None = None,
    ) -> None:
        """`model`: None: a random one, in `folder`."""
        self.out = out or folder / "rollouts"
        if model is None:
            model = folder / "model"
            tokenizer = make_tokenizer([str(ROWS)], 600)
            save(make_model(tokenizer, 0, max_position_embeddings=8192), tokenizer, TEMPLATES["chatml"].source, model)
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
        self.loops = folder / "loops.yaml"
        self.write_loops(environment, engine, f"max_rollouts: {max_rollouts}, sample_mode: {mode}")
        rollout = "actor_rollout_ref.rollout"
        with initialize_config_dir(str(Path(verl.trainer.__file__).parent / "config"), version_base=None):
            self.config = compose(
                "ppo_trainer",
                [
                    f"actor_rollout_ref.model.path={model}",
                    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
                    f"algorithm.adv_estimator={ESTIMATOR}",
                    f"{rollout}.name=vllm",
                    f"{rollout}.n={n}",
                    f"{rollout}.prompt_length={prompt_length}",
                    f"{rollout}.response_length={response_length}",
                    f"{rollout}.agent.agent_loop_config_path={self.loops}",
                    *changes,
                ],
            )

    def write_loops(self, environment: str | Path, engine: Mapping[str, Any], options: str) -> None:
        """Write the agent loop config, which verl reads when a worker is made."""
        entry = ENTRY.format(config=environment, engine=json.dumps(engine), out=self.out, options=options)
        self.loops.write_text(entry)

    def ids(self, text: str) -> list[int]:
        """What a model says, with the token that ends it."""
        return [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]


class ScriptedClient(LLMServerClient):  # type: ignore[misc]
    """verl's client with the call to its servers replaced: `answer(number of the call)`, counted from 0."""

    def __init__(self, config: Any, answer: Callable[[int], TokenOutput], *, delay_s: float = 0.0) -> None:
        super().__init__(config)
        self.calls: list[tuple[str, list[int], dict[str, Any]]] = []
        self.running = self.most_running = 0
        self._answer = answer
        self._delay_s = delay_s

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_others: Any
    ) -> TokenOutput:
        number = len(self.calls)
        self.calls.append((request_id, prompt_ids, sampling_params))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self._delay_s)
            return self._answer(number)
        finally:
            self.running -= 1


def token_output(ids: Sequence[int], number: int, *, reason: str | None = "completed", step: int = 3) -> TokenOutput:
    """An answer with log-probs of its own."""
    log_probs = [-0.01 * (1 + (number * 7 + place) % 50) for place in range(len(ids))]
    return TokenOutput(
        token_ids=list(ids), log_probs=log_probs, stop_reason=reason, extra_fields={"global_steps": step}
    )


def batch_of(rows: Sequence[dict[str, Any]], n: int) -> DataProto:
    """The generation batch of verl's trainer: each row `n` times."""
    lines = [dataset_line(row, index) for index, row in enumerate(rows) for _ in range(n)]
    fields: dict[str, Any] = {
        "agent_name": objects([line["agent_name"] for line in lines]),
        COLUMN: objects([line[COLUMN] for line in lines]),
        "raw_prompt": objects([line["prompt"] for line in lines]),
        "uid": objects([f"group-{line['extra_info']['index']}" for line in lines]),
        "index": np.array([line["extra_info"]["index"] for line in lines]),
    }
    return DataProto.from_dict(non_tensors=fields, meta_info={"global_steps": 3})


def prompts(rows: Sequence[dict[str, Any]]) -> TensorDict:
    """What V1's trainer gives a worker."""
    lines = [dataset_line(row, index) for index, row in enumerate(rows)]
    batch = TensorDict({}, batch_size=len(lines))
    batch["uid"] = NonTensorStack(*(f"group{nth}" for nth in range(len(lines))))
    batch["raw_prompt"] = NonTensorStack(*(NonTensorData(line["prompt"]) for line in lines))
    batch[COLUMN] = NonTensorStack(*(line[COLUMN] for line in lines))
    batch["agent_name"] = NonTensorStack(*(line["agent_name"] for line in lines))
    batch["index"] = NonTensorStack(*(line["extra_info"]["index"] for line in lines))
    batch["global_steps"] = NonTensorData(3)
    return batch


def objects(values: Sequence[Any]) -> "np.ndarray[Any, Any]":
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def plain_rows(batch: DataProto) -> list[dict[str, Any]]:
    """The samples of a batch without their padding."""
    width = batch.batch["prompts"].shape[1]
    rows = []
    for nth in range(len(batch)):
        there = batch.batch["attention_mask"][nth].bool()
        response = there[width:]
        rows.append(
            {
                "group": int(batch.non_tensor_batch["index"][nth]),
                "member": int(batch.non_tensor_batch["member"][nth]),
                "prompt": batch.batch["prompts"][nth][there[:width]].tolist(),
                "response": batch.batch["responses"][nth][response].tolist(),
                "mask": batch.batch["response_mask"][nth][response].tolist(),
                "log_probs": batch.batch["rollout_log_probs"][nth][response].tolist(),
                "reward": float(batch.batch["rm_scores"][nth].sum()),
                "mask_reason": batch.non_tensor_batch["mask_reason"][nth],
                "steps": [batch.non_tensor_batch[f"{bound}_global_steps"][nth] for bound in ("min", "max")],
            }
        )
    return rows
