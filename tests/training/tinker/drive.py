"""Runs under the interpreter that has SkyRL with its Tinker server, and the client: a group of which a fifth fails, the
data of it, and what the server computes for that. `drive.py FILE.yaml`, prints JSON.
"""

import asyncio
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from tinker import ServiceClient

from paddock.config import load
from paddock.rollouts import Completion, open_rollouts
from paddock.tokens import Vocabulary
from paddock.training.tinker.data import training_data
from paddock.training.tinker.engine import PolicySampler
from paddock.training.tinker.loop import read_rows
from paddock.training.tinker.settings import read_settings
from paddock.types import JsonObject

SIZE = 5


async def main(file: Path) -> None:
    settings = read_settings(file)
    vocabulary = Vocabulary.load(settings.model_folder)
    training = await ServiceClient(base_url=settings.base_url).create_lora_training_client_async(settings.base_model)
    sampler = PolicySampler([*vocabulary.stop_ids, *settings.stop_token_ids], max_tokens=settings.max_tokens)
    await sampler.take(training, 7)
    calls = 0

    async def fifth_fails(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        nonlocal calls
        calls += 1
        if calls % SIZE == 0:
            raise RuntimeError("the sampler is gone")
        return await sampler(ids, sampling, rollout=rollout)

    config = load(settings.config, [*settings.overrides, "eval.max_attempts=1"], servers=())
    engine = {"tokenizer": str(settings.model_folder), **settings.engine}
    async with open_rollouts(config, engine=fifth_fails, engine_settings=engine) as rollouts:
        groups = [await rollouts.run_group(row, SIZE) for row in islice(read_rows(settings), 4)]
    data = training_data(groups, settings.grpo)
    answer = await (await training.forward_async(data, settings.loss_fn))
    members: list[Any] = [
        [member.reward, [span.weight_version for one in member.samples for span in one.sample.spans if span.trained]]
        for group in groups
        for member in group.members
    ]
    pairs = [
        {
            "advantages": datum.loss_fn_inputs["advantages"].tolist(),
            "sampled": datum.loss_fn_inputs["logprobs"].tolist(),
            "computed": list(output["logprobs"].data),
        }
        for datum, output in zip(data, answer.loss_fn_outputs, strict=True)
    ]
    sys.stdout.write(json.dumps({"members": members, "data": pairs}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
