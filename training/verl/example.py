"""One step of verl over real environments, without a GPU: `python -m paddock.training.verl.example [FOLDER]`.

A random model of 0.2 million parameters is asked in this process, where verl's servers would be; the agent loop worker,
the batch, the advantages and the loss are verl's. FOLDER holds the model and the config; none: a temporary one.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
import verl.trainer
from hydra import compose, initialize_config_dir
from transformers import Qwen3ForCausalLM
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

import paddock
import paddock.training.verl.advantages
from paddock.testing.templates import TEMPLATES
from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save, say
from paddock.training.verl.clients import close_clients
from paddock.training.verl.rows import COLUMN, dataset_line
from paddock.training.verl.settings import ESTIMATOR

PIVOT = Path(paddock.__file__).parent / "resources_servers/pivot"
LOOPS = """
- name: paddock
  _target_: paddock.training.verl.agent_loop.PaddockAgentLoop
  environment: {{config: [{config}]}}
"""
N_ROWS, N_ROLLOUTS = 2, 4
PROMPT_LENGTH, RESPONSE_LENGTH = 1500, 24


class LocalClient(LLMServerClient):  # type: ignore[misc]
    """A model of this process in place of verl's servers."""

    def __init__(self, config: Any, model: Qwen3ForCausalLM) -> None:
        super().__init__(config)
        self._model = model

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_others: Any
    ) -> TokenOutput:
        found = self._model.generate(
            torch.tensor([prompt_ids]),
            do_sample=True,
            temperature=sampling_params["temperature"],
            top_k=0,
            max_new_tokens=sampling_params["max_tokens"],
            return_dict_in_generate=True,
            output_scores=True,
        )
        ids = found.sequences[0, len(prompt_ids) :]
        log_probs = torch.cat(found.scores).log_softmax(-1).gather(1, ids[:, None])[:, 0]
        return TokenOutput(
            token_ids=ids.tolist(),
            log_probs=log_probs.tolist(),
            stop_reason="completed",
            extra_fields={"global_steps": 0},
        )


def prepare(folder: Path, rows: list[dict[str, Any]]) -> tuple[Any, Qwen3ForCausalLM]:
    """The config of verl's trainer, and the model."""
    tokenizer = make_tokenizer([orjson.dumps(rows).decode()], 600)
    model = make_model(tokenizer, 0, max_position_embeddings=8192)
    save(model, tokenizer, TEMPLATES["chatml"].source, folder / "model")
    (folder / "loops.yaml").write_text(LOOPS.format(config=PIVOT / "configs/pivot.yaml"))
    rollout = "actor_rollout_ref.rollout"
    with initialize_config_dir(str(Path(verl.trainer.__file__).parent / "config"), version_base=None):
        changes = [
            f"algorithm.adv_estimator={ESTIMATOR}",
            f"actor_rollout_ref.model.path={folder / 'model'}",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
            f"{rollout}.name=vllm",
            f"{rollout}.n={N_ROLLOUTS}",
            f"{rollout}.prompt_length={PROMPT_LENGTH}",
            f"{rollout}.response_length={RESPONSE_LENGTH}",
            f"{rollout}.agent.agent_loop_config_path={folder / 'loops.yaml'}",
        ]
        return compose("ppo_trainer", changes), model


def generation_batch(rows: list[dict[str, Any]]) -> DataProto:
    """Each row as often as it is rolled out, as verl's trainer makes it of a dataset."""
    lines = [dataset_line(row, index) for index, row in enumerate(rows) for _ in range(N_ROLLOUTS)]
    fields = {name: [line[name] for line in lines] for name in ("agent_name", COLUMN)}
    fields["raw_prompt"] = [line["prompt"] for line in lines]
    fields["uid"] = [str(line["extra_info"]["index"]) for line in lines]
    arrays = {name: np.fromiter(values, dtype=object, count=len(lines)) for name, values in fields.items()}
    arrays["index"] = np.array([line["extra_info"]["index"] for line in lines])
    return DataProto.from_dict(non_tensors=arrays, meta_info={"global_steps": 0})


async def generate(config: Any, client: LLMServerClient, batch: DataProto) -> DataProto:
    try:
        return await AgentLoopWorker(config, client).generate_sequences(batch)
    finally:
        await close_clients()


def main(folder: Path) -> None:
    rows = [orjson.loads(line) for line in (PIVOT / "data/example.jsonl").read_bytes().splitlines()[:N_ROWS]]
    config, model = prepare(folder, rows)
    batch = asyncio.run(generate(config, LocalClient(config, model), generation_batch(rows)))
    batch.batch["token_level_rewards"] = batch.batch["rm_scores"]
    batch = compute_advantage(batch, adv_estimator=ESTIMATOR, config=config.algorithm)
    for nth in range(len(batch)):
        trained, reward = int(batch.batch["response_mask"][nth].sum()), float(batch.batch["rm_scores"][nth].sum())
        say(f"row {batch.non_tensor_batch['uid'][nth]}: {trained} trained tokens, reward {reward}")
    fields = batch.batch
    logits = model(fields["input_ids"], attention_mask=fields["attention_mask"]).logits[:, -RESPONSE_LENGTH - 1 : -1]
    log_probs = logits.log_softmax(-1).gather(2, fields["responses"][..., None])[..., 0]
    mask = fields["response_mask"]
    difference = ((log_probs - fields["rollout_log_probs"]) * mask).abs().max()
    say(f"largest difference of log-probs, model and engine: {float(difference):.1e}")
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    loss, _ = compute_policy_loss_vanilla(
        log_probs.detach(), log_probs, fields["advantages"], mask, "token-mean", actor
    )
    loss.backward()
    say(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
