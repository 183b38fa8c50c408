"""`python measure_router_replay.py FOLDER RANK CASES`: one of the processes of a policy on Megatron-core that replays
experts, in one layout after the other; rank 0 writes a line of JSON with how far each is from a model of Transformers
whose routers are made to choose the same. It claims nothing.

FOLDER: the mixtures `experts`, the engine's, and `moved`, the trainer's: the same weights but those of routers. CASES:
as in `measure_layouts.py`; `router_replay` is in `policy`. `test_router_replay.py` says what the numbers have to be.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tests.training.grpo.megatron.measure_layouts import Megatron, Weights, relatively
from tests.training.grpo.megatron.tiny import batch, settings

from paddock.errors import PaddockError
from paddock.training.core.records import Batch, TrainRow
from paddock.training.grpo.language_model import checkpoint_form
from paddock.training.grpo.learner import Learner
from paddock.training.grpo.policy_settings import SINGLE_RANK, PolicySettings, RankInfo
from paddock.training.grpo.sharding import ShardGroup
from paddock.training.grpo.training_step import FixedLogProbs, computed_part

NOTHING = FixedLogProbs(None, None)
LogProbsByRow = Mapping[int, torch.Tensor]
ChosenExperts = dict[int, NDArray[Any]]
"""By the row's length, which no other has: [tokens, layers, k]."""


def move_routers(folder: Path) -> None:
    """Make `moved`."""
    moved = folder / "moved"
    moved.mkdir()
    for file in (folder / "experts").iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    weights, chance = load_file(moved / "model.safetensors"), torch.Generator().manual_seed(1)
    for name, value in weights.items():
        if name.endswith("mlp.gate.weight"):
            weights[name] = value + 0.05 * torch.randn(value.shape, generator=chance)
    save_file(weights, moved / "model.safetensors", {"format": "pt"})


class ByHand:
    """The policy on torch, one row at a time, its routers made to choose or looked at."""

    def __init__(self, own: PolicySettings, *, flipped: bool = False) -> None:
        alone = own.policy.model_copy(update={"train_micro_batch_size": 1, "sequence_packing": _packing_off(own)})
        self.learner = Learner(own.model_copy(update={"policy": alone}), ShardGroup(SINGLE_RANK, torch.device("cpu")))
        self.chosen: ChosenExperts = {}
        self._made: ChosenExperts | None = None
        for nth, layer in enumerate(self.learner.model.model.model.layers):
            if flipped:
                layer.mlp.gate.weight.data = layer.mlp.gate.weight.data.flip(0)
            layer.mlp.gate.forward = self._router(nth, layer.mlp.gate)

    def log_probs(self, rows: Sequence[TrainRow], made: ChosenExperts | None = None) -> LogProbsByRow:
        self._made = made
        return self.learner.score(rows, range(len(rows)))

    def gradient(self, rows: Sequence[TrainRow], made: ChosenExperts) -> Weights:
        self._made = made
        self.learner.gradient(rows, computed_part(rows, range(len(rows)), every_row=True), NOTHING)
        model = self.learner.model.model
        found = {n: torch.zeros_like(v) if v.grad is None else v.grad.clone() for n, v in model.named_parameters()}
        return checkpoint_form(model, found)

    def _router(self, nth: int, gate: Any) -> Any:
        def forward(hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            logits = hidden @ gate.weight.T
            probs = torch.softmax(logits, -1)
            ids = probs.topk(gate.top_k, -1).indices
            length = len(ids)
            if self._made is not None:
                ids[:-1] = torch.from_numpy(self._made[length][:, nth].astype(np.int64))
            else:
                of_row = self.chosen.setdefault(length, np.zeros((length - 1, 2, gate.top_k), np.int8))
                of_row[:, nth] = ids[:-1].numpy()
            own = probs.gather(1, ids)
            return logits, own / own.sum(-1, keepdim=True) if gate.norm_topk_prob else own, ids

        return forward


def _packing_off(own: PolicySettings) -> Any:
    return own.policy.sequence_packing.model_copy(update={"enabled": False})


class ExpectedReplay(NamedTuple):
    """What the engine says, and what follows from it by hand."""

    rows: list[TrainRow]
    """With the engine's log-probs and experts."""
    engine: LogProbsByRow
    as_trained: LogProbsByRow
    """Of the trainer's weights and its own experts."""
    replayed: LogProbsByRow
    gradient: Weights
    gradient_r2: Weights
    """Of weights whose routers were turned round since the trainer chose."""
    differing: float
    """Share of tokens and layers where trainer and engine choose other experts."""


def expected_of(folder: Path, case: dict[str, Any]) -> ExpectedReplay:
    plain = batch().rows
    theirs = ByHand(_settings(folder / "experts", case))
    engine = theirs.log_probs(plain)
    rows = [_with(row, engine[nth], theirs.chosen[len(row.ids)]) for nth, row in enumerate(plain)]
    own = ByHand(_settings(folder / "moved", case))
    as_trained = own.log_probs(rows)
    turned = ByHand(_settings(folder / "moved", case), flipped=True)
    pairs = [np.sort(theirs.chosen[n], -1) != np.sort(own.chosen[n], -1) for n in theirs.chosen]
    return ExpectedReplay(
        rows,
        engine,
        as_trained,
        own.log_probs(rows, theirs.chosen),
        own.gradient(rows, theirs.chosen),
        turned.gradient(rows, own.chosen),
        float(np.concatenate([one.any(-1).ravel() for one in pairs]).mean()),
    )


def _with(row: TrainRow, log_probs: torch.Tensor, experts: NDArray[Any]) -> TrainRow:
    said = np.zeros(len(row.ids), np.float32)
    said[row.loss_mask] = log_probs.numpy()
    return row._replace(generation_log_probs=said, routed_experts=experts)


def _settings(folder: Path, case: dict[str, Any], **megatron: Any) -> PolicySettings:
    return settings(folder, {**megatron, **case["megatron"]}, case.get("loss"), **case.get("policy", {}))


class Replaying(Megatron):
    """A policy that replays."""

    def scored(self, rows: Sequence[TrainRow]) -> LogProbsByRow:
        found: LogProbsByRow = self.inside(lambda: self.learner.score(rows, range(len(rows))))
        return found

    def turn_routers(self) -> None:
        def turn() -> None:
            for model in self.learner.models:
                for name, value in model.named_parameters():
                    if name.endswith("router.weight"):
                        value.data.copy_(value.data.flip(0))

        self.inside(turn)

    def gradient_of(self, rows: Sequence[TrainRow]) -> Weights:
        found: Weights = self.inside(lambda: self.exported_gradient(rows, NOTHING))
        return found


def _apart(one: LogProbsByRow, other: LogProbsByRow) -> float:
    return max(float((one[nth] - value).abs().max()) for nth, value in other.items())


def _mean_apart(one: LogProbsByRow, other: LogProbsByRow) -> float:
    return float(torch.cat([(one[nth] - value).abs() for nth, value in other.items()]).mean())


def _refusal(one: Replaying, rows: Sequence[TrainRow]) -> str:
    try:
        one.scored(rows)
    except PaddockError as error:
        return error.message
    return ""


async def measured(folder: Path, rank: int, case: dict[str, Any]) -> dict[str, Any]:
    by_hand = expected_of(folder, case)
    rows = by_hand.rows
    own = _settings(folder / "moved", case, processes=case["world_size"])
    one = Replaying(own, RankInfo(rank, case["world_size"], master_port=case["port"]))
    of_engine = own.policy.router_replay.mode == "R3"
    refused = ["", ""]
    if case.get("refused"):
        without = [row._replace(routed_experts=None) for row in rows]
        narrow = [row._replace(routed_experts=row.routed_experts[:, :1]) for row in rows]  # type: ignore[index]
        refused = [_refusal(one, without), _refusal(one, narrow)]
    log_probs = one.scored(rows)
    if not of_engine:
        one.turn_routers()
    gradient = one.gradient_of(rows)
    if not of_engine:
        one.scored(rows)  # as `kl_cov` does between two optimiser steps: it is no pass before the step
        gradient = one.gradient_of(rows)
    trained = await one.policy.train(Batch(0, rows, [], [], []))
    await one.policy.stop()
    if rank:
        return {}
    expected = by_hand.gradient if of_engine else by_hand.gradient_r2
    return {
        "differing": by_hand.differing,
        "log_probs": _apart(log_probs, by_hand.replayed if of_engine else by_hand.as_trained),
        "mismatch": _mean_apart(log_probs, by_hand.engine),
        "mismatch_as_trained": _mean_apart(by_hand.as_trained, by_hand.engine),
        "gradient": relatively(gradient, expected),
        "other_gradient": relatively(gradient, by_hand.gradient_r2 if of_engine else by_hand.gradient),
        "of_routers": [float(gradient[name].abs().max()) for name in gradient if name.endswith("mlp.gate.weight")],
        "metrics": dict(trained.metrics),
        "refused": refused,
    }


async def main(folder: Path, rank: int, cases: list[dict[str, Any]]) -> None:
    found = {case["name"]: await measured(folder, rank, case) for case in cases}
    if rank == 0:
        sys.stdout.write("\n" + json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
