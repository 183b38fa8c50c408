"""The data of one step on its way from rollouts to the loss: `python -m benchmarks.training.step_data ROLLOUTS TOKENS`.

Stages  `members`: rollouts into samples, in a worker (of a few rollouts). `pickle`, `unpickle`: a group on its way to
        the driver. `make_batch`, `batch_metrics`: the driver's, in threads. `write_groups`, `read_groups`: the groups,
        as a checkpoint has them. `put`: the batch into Ray's shared memory. `get`: one rank's reading of it.
        `micro_batches`: all rows, padded one by one, on one process; ranks share them. `agreements`: of all rows.
Shapes  of a rollout every other 512 tokens are sampled; groups of 16.
Units   CPU time, in seconds for the step, and in nanoseconds per token; memory in GiB, the most that this process had
        up to the end of the driver's stages, and at the end. Without torch and Ray their stages are left out.
Target  for 1,024 rollouts of 131,072 tokens under 20 s on two cores (40 s of CPU time) for all stages but
        `read_groups`, which a resumed run alone does, and under 3 GiB in the driver.
"""

import importlib
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from paddock.training.core.agreement import agreements
from paddock.training.core.batches import make_batch
from paddock.training.core.flaws import FlawRules
from paddock.training.core.members import member_of
from paddock.training.core.metrics import batch_metrics
from paddock.training.core.records import Batch, Group, Member, MemberSample, TrainRow, TurnSpan
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.testing import rollout, turn
from paddock.training.core.wire import read_groups, write_groups

SIZE = 16
TURN = 512
N_MEMBERS = 4
SIZES = ((64, 8192), (64, 32_768), (64, 131_072), (256, 131_072))
"""Rollouts, and the tokens of each."""
TIMEOUT_S = 600
T = TypeVar("T")


class StageTimes:
    """CPU seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, work: Callable[[], T], scale: float = 1.0) -> T:
        """Do the work of a stage, or 1 / `scale` of it."""
        started = time.process_time()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + (time.process_time() - started) * scale
        return result


def slope() -> list[dict[str, Any]]:
    """The figures of several sizes, each in a process of its own; under the interpreter with Ray where there is one."""
    python = os.environ.get("PADDOCK_VLLM_PYTHON") or sys.executable
    return [_measured_apart(python, *size) for size in SIZES]


def _measured_apart(python: str, n_rollouts: int, n_tokens: int) -> dict[str, Any]:
    command = [python, "-m", __name__, str(n_rollouts), str(n_tokens)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(n_rollouts: int, n_tokens: int) -> dict[str, Any]:
    times = StageTimes()
    _members(times, n_rollouts, n_tokens)
    groups = [_arrived(times, _group(nth, n_tokens)) for nth in range(n_rollouts // SIZE)]
    batch = times.time("make_batch", lambda: _batch(groups, n_tokens))
    times.time("batch_metrics", lambda: batch_metrics(batch))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "waiting.npz"
        times.time("write_groups", lambda: write_groups(path, groups))
        driver_gib = _peak_gib()
        times.time("read_groups", lambda: len(read_groups(path)))
    rows = batch.rows
    groups.clear()
    if find_spec("ray"):
        rows = _through_ray(times, batch._replace(groups=[]))
    if find_spec("torch"):
        importlib.import_module("paddock.training.grpo.microbatches")
        times.time("micro_batches", lambda: _micro_batches(rows))
    times.time("agreements", lambda: _agreements(rows))
    total = n_rollouts * n_tokens
    return {
        "rollouts": n_rollouts,
        "tokens": n_tokens,
        "step_s": sum(times.seconds.values()) - times.seconds["read_groups"],
        "ns_per_token": {name: seconds * 1e9 / total for name, seconds in times.seconds.items()},
        "driver_gib": driver_gib,
        "peak_gib": _peak_gib(),
    }


def _members(times: StageTimes, n_rollouts: int, n_tokens: int) -> None:
    half = list(range(1000, 1000 + TURN))
    turns = [
        turn(f"t{nth}", f"t{nth - 1}" if nth else None, prompt_ids=half, sampled_ids=half, log_probs=[-0.5] * TURN)
        for nth in range(n_tokens // (2 * TURN))
    ]
    ended = [rollout(nth=nth, turns=turns) for nth in range(N_MEMBERS)]
    settings, rules = GroupSettings(), FlawRules()
    scale = n_rollouts / N_MEMBERS
    times.time("members", lambda: [member_of(one, settings, rules) for one in ended], scale)


def _group(number: int, n_tokens: int) -> Group:
    return Group(number, number, 0, tuple(_member(nth, n_tokens) for nth in range(SIZE)), SIZE, 0)


def _member(nth: int, n_tokens: int) -> Member:
    mask = np.arange(n_tokens) // TURN % 2 == 1
    chance = np.random.default_rng(nth)
    starts = range(TURN, n_tokens, 2 * TURN)
    sample = MemberSample(
        row="row",
        nth=0,
        cut=False,
        ids=chance.integers(0, 150_000, n_tokens, np.int32),
        loss_mask=mask,
        log_probs=np.where(mask, -chance.random(n_tokens, np.float32), np.float32(0)),
        spans=tuple(TurnSpan(f"t{start}", start, start + TURN, "0", trained=True) for start in starts),
    )
    return Member(nth, "completed", float(nth % 2), (sample,), turns=len(starts))


def _arrived(times: StageTimes, group: Group) -> Group:
    stored = times.time("pickle", lambda: pickle.dumps(group, 5))
    arrived: Group = times.time("unpickle", lambda: pickle.loads(stored))
    return arrived


def _batch(groups: Sequence[Group], n_tokens: int) -> Batch:
    grpo, settings = GrpoSettings(), GroupSettings()
    return make_batch(groups, step=0, grpo=grpo, settings=settings, max_length=n_tokens, known_versions=(0,))


def _through_ray(times: StageTimes, batch: Batch) -> list[TrainRow]:
    import ray

    needed = sum(row.ids.nbytes + row.loss_mask.nbytes + 2 * row.advantages.nbytes for row in batch.rows)
    ray.init(object_store_memory=int(needed * 1.1) + 2**27, include_dashboard=False, log_to_driver=False)
    reference = times.time("put", lambda: ray.put(batch))
    read: Batch = times.time("get", lambda: ray.get(reference))
    return read.rows


def _micro_batches(rows: Sequence[TrainRow]) -> None:
    import torch

    from paddock.training.grpo.microbatches import RankShare, micro_batches

    share = RankShare(0, 1, torch.device("cpu"))
    for _ in micro_batches(rows, range(len(rows)), share, size=1, capacity=None, packed=False):
        pass


def _agreements(rows: Sequence[TrainRow]) -> None:
    for row in rows:
        agreements(row, row.generation_log_probs[row.loss_mask], 0)


def _peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
