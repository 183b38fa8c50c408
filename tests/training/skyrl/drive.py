"""Runs under the interpreter that has SkyRL: real SkyRL over our environments. Writes what happened, as JSON.

python -m tests.training.skyrl.drive FOLDER SCENARIO
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import torch
from skyrl.backends.skyrl_train.inference_servers.engine_utils import get_sampling_params_for_backend
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.dataset import PromptDataset
from skyrl.train.generators.utils import prepare_generator_input
from tests.training.skyrl.http_engine import FAILS, HttpEngine
from transformers import PreTrainedTokenizerFast

from paddock.config.yaml_text import dump
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.training.skyrl.experiment import PaddockExperiment
from paddock.training.skyrl.rows import dataset_line, row_of
from paddock.training.skyrl.settings import settings_of
from paddock.types import JsonObject

ROWS = 4
SIZE = 5
"""Members of a group."""


def answers(number: int) -> str:
    return "yes" if number % 3 else "no"


def fifth_fails(number: int) -> str:
    return FAILS if number % SIZE == SIZE - 1 else answers(number)


class Experiment(PaddockExperiment):
    """With a dataset that is read in one process."""

    def get_train_dataset(self) -> PromptDataset:
        return PromptDataset(
            self.cfg.data.train_data,
            self.tokenizer,
            max_prompt_length=self.cfg.trainer.max_prompt_length,
            num_workers=1,
        )


class SkyRlPlace(NamedTuple):
    """What a run stands on."""

    url: str
    """Of the engine."""
    model: Path
    rows: list[JsonObject]
    words: list[str]
    """Of our settings: the environment's config, and keys over it."""


class SkyRlRun:
    """A place, a dataset of its rows, and SkyRL's config over them."""

    def __init__(self, folder: Path, place: SkyRlPlace, *keys: str) -> None:
        self.rows = place.rows
        (folder / "data.jsonl").write_bytes(b"".join(orjson.dumps(dataset_line(row)) + b"\n" for row in self.rows))
        given = {
            "data.dataloader.num_workers": "0",
            "data.dataloader.persistent_workers": "false",
            "data.train_data": f"['{folder / 'data.jsonl'}']",
            "trainer.policy.model.path": str(place.model),
            "trainer.placement.colocate_all": "false",
            "trainer.strategy": "fsdp",
            "trainer.train_batch_size": "2",
            "trainer.policy_mini_batch_size": "2",
            "trainer.micro_forward_batch_size_per_gpu": "1",
            "trainer.micro_train_batch_size_per_gpu": "1",
            "trainer.epochs": "1",
            "trainer.eval_interval": "-1",
            "trainer.ckpt_interval": "-1",
            "trainer.hf_save_interval": "-1",
            "trainer.resume_mode": "none",
            "trainer.logger": "console",
            "trainer.export_path": str(folder / "export"),
            "trainer.ckpt_path": str(folder / "ckpt"),
            "trainer.algorithm.policy_loss_type": "rollout_is",
            "trainer.fully_async.enabled": "true",
            "trainer.fully_async.simulate_training": "true",
            "trainer.fully_async.simulate_training_step_seconds": "0.1",
            "trainer.fully_async.num_parallel_generation_workers": "2",
            "trainer.fully_async.max_staleness_steps": "1",
            "generator.n_samples_per_prompt": str(SIZE),
            "generator.inference_engine.run_engines_locally": "false",
            "generator.inference_engine.external_proxy_url": place.url,
            "generator.inference_engine.num_engines": "1",
            "generator.inference_engine.enable_ray_prometheus_stats": "false",
            "trainer.enable_ray_gpu_monitor": "false",
        }
        given |= dict(key.split("=", 1) for key in keys)
        self.cfg = SkyRLTrainConfig.from_cli_overrides([f"{name}={value}" for name, value in given.items()])
        self.experiment = Experiment(self.cfg, settings_of(place.words))

    def trainer(self) -> Any:
        trainer = self.experiment._setup_trainer()
        trainer.init_weight_sync_state()
        return trainer

    def batch(self, trainer: Any) -> JsonObject:
        """What SkyRL asks its generator for two prompts, and what it gave, checked by SkyRL."""
        prompts = [
            {"prompt": prompt, "env_class": kind, "env_extras": extras, "uid": uid}
            for prompt, kind, extras, uid in (self.experiment.train_dataset[nth] for nth in range(2))
        ]
        sampling = get_sampling_params_for_backend("vllm", self.cfg.generator.sampling_params)
        size = self.cfg.generator.n_samples_per_prompt
        asked, uids = prepare_generator_input(prompts, size, sampling, "paddock", "train", 1)
        output = asyncio.run(trainer.generate(asked))
        return {"output": output, "uids": uids, "asked": asked}


class ScriptedSkyRlRun(SkyRlRun):
    """A run whose engine answers on cue."""

    def __init__(self, folder: Path, answer: Callable[[int], str], *keys: str) -> None:
        self.engine = HttpEngine(answer)
        self.out = folder / "runs"
        environment = folder / "environment.yaml"
        environment.write_text(dump(_environment()))
        words = [str(environment), f"rollouts.out={self.out}"]
        rows = [_row(nth) for nth in range(ROWS)]
        super().__init__(folder, SkyRlPlace(self.engine.url, _model_folder(folder / "model"), rows, words), *keys)


def _model_folder(folder: Path) -> Path:
    template = TEMPLATES["chatml"].source
    write_model_folder(folder, chat_template=template)
    stops = (folder / "generation_config.json").read_bytes()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    (folder / "generation_config.json").write_bytes(stops)
    return folder


def _environment() -> JsonObject:
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
    }
    return {
        "environment": {"resources_servers": {"paddock.conformance.scripted:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": refers}},
        "eval": {"retry_wait_s": 0, "max_attempts": 1},
    }


def _row(nth: int) -> JsonObject:
    request = {"input": [{"role": "user", "content": f"Yes or no? {nth}"}], "max_output_tokens": 100 + nth}
    return {"responses_create_params": request, "answer": "yes", **({"extra": {"only": nth}} if nth else {})}


def _plain(output: JsonObject) -> JsonObject:
    ids = [[one.instance_id, one.repetition_id] for one in output["trajectory_ids"]]
    return {**output, "trajectory_ids": ids}


def rows(folder: Path) -> JsonObject:
    """Rows through SkyRL's dataset."""
    run = ScriptedSkyRlRun(folder, answers)
    dataset = run.experiment.train_dataset
    return {"wrote": run.rows, "read": [row_of(dataset[nth][2]) for nth in range(ROWS)]}


def whole(folder: Path) -> JsonObject:
    return _generated(folder, "generator.sampling_params.temperature=0.7")


def step_wise(folder: Path) -> JsonObject:
    return _generated(folder, "generator.step_wise_trajectories=true", "generator.sampling_params.logprobs=null")


def _generated(folder: Path, *keys: str) -> JsonObject:
    run = ScriptedSkyRlRun(folder, answers, *keys)
    trainer = run.trainer()
    made = run.batch(trainer)
    run.experiment.close()
    return {"output": _plain(made["output"]), "calls": run.engine.calls, "runs": str(run.out)}


def failed_whole(folder: Path) -> JsonObject:
    return _trained(folder, fifth_fails)


def failed_step_wise(folder: Path) -> JsonObject:
    return _trained(folder, fifth_fails, "generator.step_wise_trajectories=true")


def failed_all(folder: Path) -> JsonObject:
    return _trained(folder, lambda number: FAILS, "generator.step_wise_trajectories=true")


def failed_but_one(folder: Path) -> JsonObject:
    return _trained(
        folder, lambda number: "yes" if number in (0, 9) else FAILS, "generator.step_wise_trajectories=true"
    )


def _trained(folder: Path, answer: Callable[[int], str], *keys: str) -> JsonObject:
    """A batch as SkyRL's trainer makes it, with its advantages, its loss and its gradient."""
    run = ScriptedSkyRlRun(folder, answer, *keys)
    trainer = run.trainer()
    made = run.batch(trainer)
    run.experiment.close()
    plain = _plain(made["output"])
    uids = [one.instance_id for one in made["output"]["trajectory_ids"]]
    output, uids = trainer.postprocess_generator_output(made["output"], uids)
    given = trainer.convert_to_training_input(output, uids)
    given["values"] = None  # what a critic says: there is none
    data = trainer.compute_advantages_and_returns(given)
    return {"output": plain, "batch": _loss(data, run.cfg), "metrics": trainer.all_metrics}


def _loss(data: Any, cfg: Any) -> JsonObject:
    mask, engine = data["loss_mask"], data["rollout_logprobs"]
    noise = torch.rand(engine.shape, generator=torch.Generator().manual_seed(3)) - 0.5
    now = (engine + noise * 0.6).requires_grad_()
    old = engine + noise.flip(1) * 0.4
    size = mask.shape[0]
    scaled = ppo_utils.apply_loss_reduction_to_advantages_minibatch(data["advantages"], mask, "token_mean", size, 0)
    algorithm = cfg.trainer.algorithm
    algorithm.policy_loss_type = "regular"
    algorithm.off_policy_correction.tis_ratio_type = None
    loss, _ = ppo_utils.PolicyLossRegistry.get("regular")(
        now, old, scaled, config=algorithm, loss_mask=mask, rollout_logprobs=engine
    )
    (gradient,) = torch.autograd.grad(loss, now)
    return {
        "loss": loss.item(),
        "gradient_of_masked": gradient[mask == 0].abs().max().item() if (mask == 0).any() else 0.0,
        "mask": mask.tolist(),
        "response_mask": data["response_mask"].tolist(),
        "engine": engine.tolist(),
        "advantages": data["advantages"].tolist(),
        "sequences": data["sequences"].tolist(),
    }


def simulated(folder: Path) -> JsonObject:
    """SkyRL's fully asynchronous loop to its end."""
    run = ScriptedSkyRlRun(folder, fifth_fails, "trainer.epochs=2", "generator.step_wise_trajectories=true")
    asked: list[int] = []
    steps: list[JsonObject] = []
    trainer = run.experiment._setup_trainer()
    generate, training = trainer.generator.generate, trainer._run_training

    async def counted(batch: Any) -> Any:
        asked.append(trainer.global_step)
        return await generate(batch)

    async def observed(data: Any) -> Any:
        result = await training(data)
        steps.append({"step": trainer.global_step, "asked": len(asked), "rows": len(data["sequences"])})
        return result

    trainer.generator.generate, trainer._run_training = counted, observed
    asyncio.run(trainer.train())
    run.experiment.close()
    salts = [call.get("cache_salt") for call in run.engine.calls]
    return {"steps": steps, "asked": asked, "controls": run.engine.controls, "salts": salts}


def unread(folder: Path) -> JsonObject:
    """SkyRL's fully asynchronous loop whose first step of training does not end: how many groups it asked for, and for
    how many some seconds later."""
    run = ScriptedSkyRlRun(folder, answers, "trainer.epochs=4", "generator.step_wise_trajectories=true")
    trainer = run.experiment._setup_trainer()
    generate, asked = trainer.generator.generate, 0
    training = asyncio.Event()

    async def counted(batch: Any) -> Any:
        nonlocal asked
        asked += 1
        return await generate(batch)

    async def endless(_data: Any) -> Any:
        training.set()
        await asyncio.Event().wait()

    async def watched() -> list[int]:
        task = asyncio.create_task(trainer.train())
        await training.wait()
        counts = []
        for _ in range(2):
            await asyncio.sleep(5)
            counts.append(asked)
        task.cancel()
        return counts

    trainer.generator.generate, trainer._run_training = counted, endless
    counts = asyncio.run(watched())
    run.experiment.close()
    return {"counts": counts, "calls": len(run.engine.calls)}


def main(folder: str, *names: str) -> None:
    for name in names:
        place = Path(folder) / name
        place.mkdir(parents=True)
        result = globals()[name](place)
        (Path(folder) / f"{name}.json").write_bytes(orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY))


if __name__ == "__main__":
    main(*sys.argv[1:])
