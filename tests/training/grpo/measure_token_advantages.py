"""`python measure_token_advantages.py`: the advantages that a training step gives its backend, in a line of JSON.

Runs in the environment that has torch; `test_token_advantages.py` says what they have to be.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tests.training.grpo.tiny_policy import batch

from paddock.training.core.records import TrainRow
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.training_step import (
    FixedLogProbs,
    LogProbs,
    OptimizerStep,
    StepPart,
    ValueTargets,
    train,
)

KL = {"use_kl_in_reward": True, "reference_policy_kl_penalty": 0.5, "reference_policy_kl_type": "k1"}
PLUS_PLUS = {"name": "reinforce_plus_plus", "minus_baseline": False}


class RecordingBackend:
    """A backend whose log-probs are the engine's less 0.1, and the reference's less 0.1 more for each token."""

    def __init__(self, disagreeing: int | None = None) -> None:
        self._disagreeing = disagreeing
        self.rows: dict[int, TrainRow] = {}
        self.scored: list[bool] = []

    def score(self, rows: Sequence[TrainRow], indices: Sequence[int], *, reference: bool = False) -> LogProbs:
        self.scored.append(reference)
        return {nth: self._log_probs(rows[nth], nth, reference) for nth in indices}

    def step(self, rows: Sequence[TrainRow], part: StepPart, fixed: FixedLogProbs) -> OptimizerStep:
        self.rows.update({nth: rows[nth] for nth in part.indices})
        return OptimizerStep({"train/loss": 0.0}, {})

    def _log_probs(self, row: TrainRow, nth: int, reference: bool) -> torch.Tensor:
        own = torch.from_numpy(row.generation_log_probs[row.loss_mask]) - (9.0 if nth == self._disagreeing else 0.1)
        return own - 0.1 * torch.arange(1, len(own) + 1) if reference else own


class ZeroCritic:
    """A critic that knows nothing: what it is to predict are the sums of rewards to come."""

    def values(self, rows: Sequence[TrainRow], indices: Sequence[int]) -> LogProbs:
        return {nth: torch.zeros(rows[nth].tokens) for nth in indices}

    def credited(
        self, rows: Sequence[TrainRow], values: LogProbs, penalties: Mapping[int, Any] | None = None
    ) -> tuple[list[TrainRow], LogProbs]:
        assert penalties is not None
        return list(rows), {nth: torch.from_numpy(own) for nth, own in penalties.items()}

    def step(self, rows: Sequence[TrainRow], part: Sequence[int], targets: ValueTargets) -> dict[str, float]:
        return {f"returns/{nth}": float(targets.returns[nth].sum()) for nth in part}


def measured(
    loss: dict[str, Any], grpo: dict[str, Any], disagreeing: int | None = None, *, critic: bool = False
) -> dict[str, Any]:
    settings = PolicySettings.model_validate({"policy": {"model_name": "none"}, "loss": loss, "grpo": grpo})
    backend, given = RecordingBackend(disagreeing), batch()
    done = train(backend, given, settings, ZeroCritic() if critic else None)
    return {
        "raw": [float(row.advantages[row.loss_mask][0]) for row in given.rows],
        "tokens": [row.tokens for row in given.rows],
        "advantages": {nth: row.advantages[row.loss_mask].tolist() for nth, row in backend.rows.items()},
        "elsewhere": max(abs(row.advantages[~row.loss_mask]).max().item() for row in backend.rows.values()),
        "metrics": dict(done.metrics),
        "masked": done.masked_rows,
        "references": sum(backend.scored),
    }


def main() -> None:
    plain: dict[str, Any] = {"adv_estimator": PLUS_PLUS}
    cases = {
        "plain": measured({}, plain),
        "masked": measured({}, {**plain, "seq_logprob_error_threshold": 2.0}, disagreeing=0),
        "token": measured(KL, plain),
        "reward_to_go": measured(KL, {"adv_estimator": {**PLUS_PLUS, "kl_credit": "reward_to_go"}}),
        "critic": measured(KL, {}, critic=True),
        "grpo": measured({}, {}),
    }
    sys.stdout.write(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
