"""A trainer that starts a pool of verifiers' environment servers, as prime-rl does, and asks for rollouts, until it is
killed: `drive_killed.py FOLDER URL N`. FOLDER/taskset.json has the keys of `env.taskset`, FOLDER/model the tokenizer.
"""

import asyncio
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import orjson
from verifiers.v1.clients import TrainClientConfig
from verifiers.v1.serve import EnvClient
from verifiers.v1.serve.pool import env_config_data, serve_env
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_taskset, resolve_env_config


async def ask(config: Any, address: str, folder: Path, url: str, size: int) -> None:
    client = EnvClient(address)
    await client.wait_for_server_startup()
    (task,) = load_taskset(config.taskset)
    words = (
        TrainClientConfig(base_url=url),
        str(folder / "model"),
        SamplingConfig(),
        task.data.model_dump(mode="json"),
    )
    await asyncio.gather(*(client.run(*words) for _ in range(size)))


def main(folder: Path, url: str, size: int) -> None:
    config = resolve_env_config({"taskset": orjson.loads((folder / "taskset.json").read_bytes())})
    spawning = multiprocessing.get_context("spawn")
    addresses = spawning.Queue()
    _ours, theirs = spawning.Pipe()
    keys = {"max_workers": 2, "address": "tcp://127.0.0.1:0", "address_queue": addresses, "death_pipe": theirs}
    spawning.Process(target=serve_env, kwargs={**keys, "config_data": env_config_data(config)}).start()
    theirs.close()
    asyncio.run(ask(config, addresses.get(), folder, url, size))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
