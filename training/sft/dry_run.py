"""The plan that `paddock sft --dry-run` prints: what is chosen, what becomes of the rest, steps, what is missing here.

Law     nothing is started or written; rollouts are read as by a run.
Errors  those of a run before it starts.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from paddock.training.grpo.dry_run import inert_lines
from paddock.training.grpo.preflight import PACKAGES, missing_of, sink_packages
from paddock.training.sft.choice import SftRollout, fates_text
from paddock.training.sft.config import SftConfig
from paddock.training.sft.read_config import SftRunConfig
from paddock.training.sft.samples import SftSample
from paddock.training.sft.train import make_plan, tokenizer_folder


def plan_text(read: SftRunConfig, out: Path) -> str:
    """The whole plan."""
    config, plan = read.config, make_plan(read.config)
    policy = config.policy
    lines = [
        ("run", f"{read.name}, into {out}"),
        ("policy", f"{policy.model_name}, {policy.precision}, processes: {policy.n_processes}"),
        ("rollouts", f"{len(config.data.rollouts)} runs or files; {fates_text(plan.chosen.fates)}"),
        ("vocabulary", _vocabulary(config)),
        ("trained on", _counts(plan.chosen.trained, plan.trained)),
        ("held out", _counts(plan.chosen.held_out, plan.held_out)),
        ("steps", f"{plan.steps.per_epoch} an epoch, of about {config.batch_size} samples; {plan.n_steps} in all"),
    ]
    missing = missing_packages(config)
    return "\n".join(
        [
            *(f"{head:<16}{text}" for head, text in lines),
            *inert_lines(read.notes),
            *(f"missing: package {name}, in {sys.executable}" for name in missing),
        ]
    )


def missing_packages(config: SftConfig) -> list[str]:
    """Packages that a run imports here and that are not installed."""
    return missing_of([*PACKAGES, *sink_packages(config.logger)])


def _vocabulary(config: SftConfig) -> str:
    folder = tokenizer_folder(config)
    return (
        f"of {folder}: the ids are its own" if folder is not None else "not checked: the tokenizer is in no folder here"
    )


def _counts(candidates: Sequence[SftRollout], samples: Sequence[SftSample]) -> str:
    rows = len({candidate.row for candidate in candidates})
    longest = max((len(sample.ids) for sample in samples), default=0)
    return (
        f"rows: {rows}; rollouts: {len(candidates)}; samples: {len(samples)}, the longest of {longest:,} tokens; "
        f"tokens in the loss: {sum(sample.tokens for sample in samples):,}"
    )
