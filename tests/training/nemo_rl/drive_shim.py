"""Calls `nemo_gym` as NeMo-RL's actor does, in the order in which it does; a process of its own, `shims` on its path.

Input   `dictionary` and `rows`, as JSON.
Output  `results` by row; `gone`, what a look at the servers said after one of their processes was killed; `status` and
        `content` of a call then; `left`, processes that are there at the end.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil


def main() -> None:
    from omegaconf import DictConfig

    from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
    from nemo_gym.rollout_collection import RolloutCollectionHelper
    from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig

    given = json.load(sys.stdin)
    dictionary = {**given["dictionary"], HEAD_SERVER_KEY_NAME: {"host": "0.0.0.0", "port": 5017}}
    helper = RunHelper()
    helper.start(
        global_config_dict_parser_config=GlobalConfigDictParserConfig(
            dotenv_path=Path("nemo_gym_env.yaml").absolute(),
            initial_global_config_dict=DictConfig(dictionary),
            skip_load_from_cli=True,
        )
    )
    head = BaseServerConfig(host="127.0.0.1", port=5017)
    collection = RolloutCollectionHelper()

    async def run(rows: list[dict[str, Any]]) -> list[Any]:
        results: list[Any] = [None] * len(rows)
        for task in collection.run_examples(examples=rows, head_server_config=head):
            row, result = await task
            results[row["_rowidx"]] = [row["agent_ref"]["name"], result]
        return results

    helper.poll()
    told: dict[str, Any] = {"results": asyncio.run(run(given["rows"]))}
    for child in psutil.Process().children(recursive=True):
        child.kill()
    deadline = time.monotonic() + 60
    while "gone" not in told and time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            helper.poll()
        except Exception as error:
            told["gone"] = str(error)
    try:
        asyncio.run(run(given["rows"]))
    except Exception as error:
        told["status"] = error.status  # type: ignore[attr-defined]
        told["content"] = error.response_content.decode()  # type: ignore[attr-defined]
    helper.shutdown()
    told["left"] = [child.pid for child in psutil.Process().children(recursive=True)]
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
