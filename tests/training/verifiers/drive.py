"""Runs under the interpreter that has verifiers: its environment server, and prime-rl's baseline.

python -m tests.training.verifiers.drive FOLDER URL SIZE MAX_TOKENS

FOLDER/taskset.json has the keys of `env.taskset`, FOLDER/model the tokenizer; what came of it is FOLDER/served.json.
With prime-rl's sources on PYTHONPATH its own baseline is in it, too.
"""

import asyncio
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
from verifiers.v1.agent import AgentConfig
from verifiers.v1.clients import TrainClientConfig
from verifiers.v1.serve import EnvClient, EnvServer
from verifiers.v1.task import TaskData
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_taskset, resolve_env_config

from paddock.rollouts import TrainingRollout
from paddock.tokens.export import plan_rollout, rollout_samples
from paddock.training.core.testing import rollout, turn
from paddock.training.verifiers.traces import record
from paddock.types import JsonObject


async def served_episodes(folder: Path, url: str, size: int, max_tokens: int) -> list[list[Any]]:
    """The episodes of each row, asked of an environment server as prime-rl asks it."""
    config = resolve_env_config({"taskset": orjson.loads((folder / "taskset.json").read_bytes())})
    server = EnvServer(config, "tcp://127.0.0.1:0")
    serving = asyncio.create_task(server.run())
    client = EnvClient(server.address)
    await client.wait_for_server_startup()
    sampling = SamplingConfig(
        temperature=1.0, top_p=1.0, max_tokens=max_tokens, logprobs=True, extra_body={"cache_salt": "3"}
    )
    asked = TrainClientConfig(base_url=url)

    async def run(data: TaskData) -> Any:
        return await client.run(asked, str(folder / "model"), sampling, data.model_dump(mode="json"))

    try:
        tasks = list(load_taskset(config.taskset))
        return [await asyncio.gather(*(run(task.data) for _ in range(size))) for task in tasks]
    finally:
        await client.close()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def branching_trace() -> tuple[Trace, list[JsonObject]]:
    """The trace of a rollout whose second turn was asked twice, and its samples."""
    turns = [turn("a", sampled=3), turn("b", "a", sampled=4), turn("c", "a", sampled=2), turn("d", "c", sampled=1)]
    done = rollout(turns=turns)
    samples = tuple(rollout_samples(done, "branch", plan_rollout(done, "branch")))
    trace = Trace(
        task=TraceTask(type="Task", data=TaskData()), agent=AgentInfo(config=AgentConfig()), rewards={"reward": None}
    )
    record(trace, TrainingRollout(0, "completed", 1.0, None, samples, rollout=done), decode=str)
    return trace, [entry.sample.model_dump() for entry in samples]


def branches(trace: Any) -> list[JsonObject]:
    """What verifiers makes of a trace."""
    return [
        {"ids": branch.token_ids, "loss_mask": branch.sampled_mask, "log_probs": branch.logprobs}
        for branch in trace.branches
    ]


async def prime_advantages(group: list[Any]) -> None:
    """Have prime-rl's GRPO give a group's traces their advantages."""
    if find_spec("prime_rl") is None:
        return
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm

    await GRPOAlgorithm(GRPOAlgoConfig(), policy_pool=None).score_group(group)


async def main(folder: Path, url: str, size: int, max_tokens: int) -> None:
    groups = await served_episodes(folder, url, size, max_tokens)
    for group in groups:
        await prime_advantages(group)
    traces = [[trace for episode in group for trace in episode.traces] for group in groups]
    trace, samples = branching_trace()
    found = {
        "groups": [
            [
                {
                    "ok": trace.ok,
                    "reward": trace.reward if trace.ok else None,
                    "branches": branches(trace),
                    "advantages": [branch.advantages for branch in trace.branches],
                }
                for trace in group
            ]
            for group in traces
        ],
        "branching": {"samples": samples, "branches": branches(trace)},
    }
    (folder / "served.json").write_bytes(orjson.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])))
