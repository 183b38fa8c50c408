"""Batches that verl's agent loop worker makes over our agent loop, as JSON: `drive_batches.py FOLDER`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import torch
from library import (  # type: ignore[import-not-found]
    HERMES,
    PIVOT,
    ROWS,
    ScriptedClient,
    World,
    batch_of,
    objects,
    plain_rows,
    right_call,
    token_output,
)
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.config import omega_conf_to_dataclass

from paddock.training.verl.clients import close_clients
from paddock.training.verl.engine import engine_function


def run(world: Any, client: Any, rows: int = 3, n: int = 4) -> DataProto:
    async def generate() -> DataProto:
        try:
            return await AgentLoopWorker(world.config, client).generate_sequences(batch_of(ROWS[:rows], n))
        finally:
            await close_clients()

    return asyncio.run(generate())


def answers(world: Any, *, failing: int = 0) -> Any:
    """Right calls and wrong ones; each `failing`-th call of the engine fails, if that is not 0."""
    right = [world.ids(right_call(row)) for row in ROWS]

    def answer(number: int) -> Any:
        if failing and number % failing == 1:
            raise RuntimeError("the engine is gone")
        return token_output(right[0] if number % 3 else world.ids("I look at it."), number)

    return answer


def whole_batch(folder: Path) -> dict[str, Any]:
    world = World(folder)
    client = ScriptedClient(world.config, answers(world))
    batch = run(world, client)
    return {
        "out": str(world.out),
        "rows": plain_rows(batch),
        "keys": [key for key, _, _ in client.calls],
        "sampling": client.calls[0][2],
        "shapes": {name: list(value.shape) for name, value in batch.batch.items()},
        "steps": [list(set(batch.non_tensor_batch[name])) for name in ("min_global_steps", "max_global_steps")],
    }


def cut_batch(folder: Path) -> dict[str, Any]:
    """With room for less than the prompt in the prompt, and for less than the answer after it."""
    world = World(folder, prompt_length=1000, response_length=500)
    width = len(world.ids(right_call(ROWS[0])))
    batch = run(world, ScriptedClient(world.config, answers(world)), rows=1)
    first = plain_rows(batch)
    small = World(folder / "small", prompt_length=4000, response_length=160)
    small.config.actor_rollout_ref.rollout.response_length = 8
    small.write_loops(PIVOT / "configs/pivot.yaml", {**HERMES, "max_model_len": 5000}, "sample_mode: whole")
    client = ScriptedClient(small.config, lambda number: token_output(range(20, 60), number))
    return {
        "answer": width,
        "out": str(world.out),
        "long_prompt": first,
        "short": plain_rows(run(small, client, rows=1)),
    }


def failed_batch(folder: Path) -> dict[str, Any]:
    """Each fifth call fails; verl's advantages and losses over it."""
    world = World(folder, n=10)
    batch = run(world, ScriptedClient(world.config, answers(world, failing=5)), n=10)
    batch.batch["token_level_rewards"] = batch.batch["rm_scores"]
    found: dict[str, Any] = {"rows": plain_rows(batch), "extra": batch.meta_info["reward_extra_keys"]}
    for name in ("paddock_grpo", "grpo"):
        data = compute_advantage(batch, adv_estimator=name, norm_adv_by_std_in_grpo=True, config=world.config.algorithm)
        found[name] = [row.tolist() for row in data.batch["advantages"].amax(-1) + data.batch["advantages"].amin(-1)]
        if name == "paddock_grpo":
            found["losses"] = losses(world, data)
    return found


def losses(world: Any, data: DataProto) -> dict[str, Any]:
    """Gradients of verl's loss outside the mask, with log-probs of a made-up policy; and the rows trained on."""
    config = omega_conf_to_dataclass(world.config.actor_rollout_ref.actor)
    mask = data.batch["response_mask"]
    torch.manual_seed(0)
    old = data.batch["rollout_log_probs"] + 0.3 * torch.randn(mask.shape)
    new = (old + 0.3 * torch.randn(mask.shape)).requires_grad_()
    found: dict[str, Any] = {}
    for mode in ("token-mean", "seq-mean-token-mean"):
        loss, _ = compute_policy_loss_vanilla(old, new, data.batch["advantages"], mask, mode, config)
        (gradient,) = torch.autograd.grad(loss, new)
        found[f"{mode} gradient outside"] = float(gradient[mask == 0].abs().sum())
    found["rows"] = mask.nonzero()[:, 0].tolist()
    return found


def lone_survivor(folder: Path) -> dict[str, Any]:
    """The first sample of the batch fails; verl looks at that one for what the others have."""
    world = World(folder, n=2)

    def answer(number: int) -> Any:
        if number == 0:
            raise RuntimeError("the engine is gone")
        return token_output(world.ids(right_call(ROWS[0])), number)

    batch = run(world, ScriptedClient(world.config, answer), rows=1, n=2)
    batch.batch["token_level_rewards"] = batch.batch["rm_scores"]
    alone = {}
    for name in ("paddock_grpo", "grpo"):
        data = compute_advantage(batch, adv_estimator=name, config=world.config.algorithm)
        alone[name] = data.batch["advantages"].amax(-1).tolist()
    rows, fields = plain_rows(batch), sorted(batch.batch.keys())
    trainers = {"tensors": {"dummy_tensor": torch.zeros(2)}, "non_tensors": {"uid": objects(["group-0"] * 2)}}
    DataProto.from_dict(**trainers).union(batch)
    batch.non_tensor_batch["uid"] = objects(["group-0", "own"])
    try:
        DataProto.from_dict(**trainers).union(batch)
        refused = ""
    except AssertionError as error:
        refused = str(error)
    return {"rows": rows, "fields": fields, "alone": alone, "own_uid": refused}


def held_back(folder: Path) -> dict[str, Any]:
    world = World(folder, max_rollouts=2)
    client = ScriptedClient(world.config, answers(world), delay_s=0.05)
    run(world, client)
    return {"most": client.most_running, "calls": len(client.calls)}


def aborted(folder: Path) -> dict[str, Any]:
    """Answers that a weight update ended, and that go on under other weights."""
    world = World(folder, n=1)
    ids = world.ids(right_call(ROWS[0]))

    def answer(number: int) -> Any:
        if number == 0:
            return token_output(ids[:5], 0, reason="aborted", step=3)
        return token_output(ids[5:], 1, step=4)

    client = ScriptedClient(world.config, answer)
    batch = run(world, client, rows=1, n=1)
    return {
        "ids": ids,
        "rows": plain_rows(batch),
        "keys": [key for key, _, _ in client.calls],
        "prompts": [len(prompt) for _, prompt, _ in client.calls],
        "bounds": [sampling["max_tokens"] for _, _, sampling in client.calls],
        "steps": [int(batch.non_tensor_batch[name][0]) for name in ("min_global_steps", "max_global_steps")],
    }


ENDS: list[tuple[list[int], str | None]] = [
    ([5, 6], "completed"),
    ([5, 6, 7], "completed"),
    ([5, 6, 2], "completed"),
    ([5], "aborted"),
    ([], "aborted"),
    ([5, 6], None),
]


def finish_reasons(folder: Path) -> dict[str, Any]:
    """How answers of at most three tokens ended, where 2 is the token that ends one."""
    client = ScriptedClient(
        World(folder).config, lambda number: token_output(ENDS[number][0], 0, reason=ENDS[number][1])
    )
    sample: Any = engine_function(client, end_ids=frozenset({2}))
    given = {"max_tokens": 3, "temperature": 0.5, "tool_choice": "auto", "seed": None}

    async def reasons() -> list[str]:
        return [(await sample([1], given, rollout="key")).finish_reason for _ in ENDS]

    return {"reasons": asyncio.run(reasons()), "asked": client.calls[0]}


SCENES = (whole_batch, cut_batch, failed_batch, lone_survivor, held_back, aborted, finish_reasons)


def main(folder: Path) -> None:
    found = {}
    for scene in SCENES:
        (folder / scene.__name__).mkdir()
        found[scene.__name__] = scene(folder / scene.__name__)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
