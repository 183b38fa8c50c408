"""Calls our actor as NeMo-RL does, in a Ray of its own: `python -m tests.training.nemo_rl.drive_actor`.

Runs under the interpreter of an environment with Ray, torch and transformers.
Input   `env` (`master_config.env`), `base_urls`, `model`, `tokenizer` (a folder), `rows`, `logs`, as JSON.
Output  `streamed`: of each result its place, messages with their tensors' types, reward, mask and items; `timing`;
        `dead`: what a call said once the actor's process was killed; `left`: processes that are there at the end.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from paddock.training.grpo.processes import local_ray
from paddock.training.nemo_rl.install import spinup_gym_actor


def main() -> None:
    given = json.load(sys.stdin)
    told: dict[str, Any] = {}
    with local_ray(Path(given["logs"])):
        import ray
        from transformers import AutoTokenizer

        actor = spinup_gym_actor(
            given["env"],
            given["base_urls"],
            given["model"],
            tokenizer=AutoTokenizer.from_pretrained(given["tokenizer"]),
            enable_router_replay=False,
            routed_experts_dtype="int16",
            use_fastokens=False,
        )
        ray.get(actor.health_check.remote())
        told |= asyncio.run(_stream(actor, given["rows"]))
        (process,) = _named("ray::GymActor")
        family = process.children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        try:
            ray.get(actor.health_check.remote())
        except ray.exceptions.RayError as error:
            told["dead"] = type(error).__name__
        _, alive = psutil.wait_procs(family, timeout=60)
        told["left"] = [child.name() for child in alive]
    json.dump(told, sys.stdout)


async def _stream(actor: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """As `run_async_nemo_gym_rollout` reads it."""
    generator = actor.run_rollouts.options(num_returns="streaming").remote(rows, "timing/rollout", False)
    iterator = generator.__aiter__()
    streamed: list[dict[str, Any]] = []
    timing: Any = None
    while True:
        try:
            reference = await anext(iterator)
        except StopAsyncIteration:
            return {"streamed": streamed, "timing": timing}
        index, result, timing = await reference
        full = result["full_result"]
        streamed.append(
            {
                "index": index,
                "messages": [_message(message) for message in result["message_log"]],
                "first": result["input_message_log"][0]["token_ids"].tolist(),
                "reward": full["reward"],
                "config": full["instance_config"],
                "items": full["response"]["output"],
            }
        )


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """With `.tolist()` of each tensor, and its type."""
    tensors = {key: value for key, value in message.items() if hasattr(value, "dtype")}
    types = {key: str(value.dtype) for key, value in tensors.items()}
    return {**message, **{key: value.tolist() for key, value in tensors.items()}, "types": types}


def _named(name: str) -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if name in " ".join(one.cmdline())]


if __name__ == "__main__":
    main()
