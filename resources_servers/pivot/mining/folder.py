"""The folder of a mining: candidates, the policy's run over them, the rows that were chosen, the report.

Files   `candidates.jsonl`: a row per candidate. `run/`: a run of `paddock eval` over them. `train.jsonl`,
        `validation.jsonl`: the pivots. `replays.jsonl`: how far trajectories were played again. `report.json`,
        `report.md`: what became of all.
Law     each file is there whole or not at all. Going on needs the same candidates.
Errors  ConfigError where the folder holds something else.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.collect.folder import INDEX
from paddock.collect.recovery import read_index
from paddock.errors import ConfigError
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.step import StepSnapshot
from paddock.resources_servers.pivot.mining.candidates import Candidates, PivotCandidate
from paddock.resources_servers.pivot.mining.files import read_trajectories
from paddock.resources_servers.pivot.mining.replay import TrajectoryReplay
from paddock.resources_servers.pivot.mining.replay_options import ReplayOptions
from paddock.resources_servers.pivot.mining.replays import REPLAYS, read_replays, replay_candidates, replay_report
from paddock.resources_servers.pivot.mining.rows import Split, repository_of, row_of, snapshot_of, split_of
from paddock.resources_servers.pivot.mining.selection import (
    Choice,
    SampledCandidate,
    SelectionOptions,
    choose,
    counts_by,
)
from paddock.types import JsonObject
from paddock.whole_file import write_whole

SPLITS: tuple[Split, ...] = ("train", "validation")
CANDIDATES, RUN, REPORT = "candidates.jsonl", "run", "report"
_BINS = 10
_BAR = 40


class HeldOutTasks(NamedTuple):
    """Tasks that no row may come from."""

    instances: frozenset[str]
    repositories: frozenset[str]


class MiningFolder:
    """The files of one mining."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.candidates = root / CANDIDATES
        self.run = root / RUN

    def write_candidates(self, rows: Sequence[JsonObject], *, resume: bool) -> None:
        """Write the candidates; with `resume` they have to be those that are there."""
        lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        if self.candidates.exists() and (not resume or self.candidates.read_bytes() != lines):
            hint = "its candidates are others" if resume else "--resume goes on with it"
            raise ConfigError(
                f"{self.root}: holds a mining already: {hint}, or name another folder", kind="folder_used"
            )
        self.root.mkdir(parents=True, exist_ok=True)
        write_whole(self.candidates, lines)

    def rewards(self) -> dict[str, list[float]]:
        """Return the rewards of each candidate's answers so far, by its uuid."""
        rewards: dict[str, list[float]] = {}
        for result in read_index(self.run / INDEX) if (self.run / INDEX).exists() else ():
            if result.uuid is not None and result.reward is not None:
                rewards.setdefault(result.uuid, []).append(result.reward)
        return rewards

    def snapshots(self) -> set[str]:
        """Return the images that the folder's pivots start from."""
        lines = [line for name in SPLITS for line in (self.root / f"{name}.jsonl").read_bytes().splitlines()]
        return {row["snapshot"]["image"] for row in map(orjson.loads, lines) if "snapshot" in row}

    def write_rows(self, rows: Iterable[JsonObject], name: str) -> None:
        write_whole(self.root / f"{name}.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def write_report(self, report: JsonObject, text: str) -> None:
        write_whole(self.root / f"{REPORT}.json", orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
        write_whole(self.root / f"{REPORT}.md", text)


def find_candidates(
    paths: Sequence[Path],
    *,
    only_resolved: bool,
    max_history_chars: int,
    held_out: HeldOutTasks,
    max_candidates: int | None,
) -> tuple[Candidates, list[PivotCandidate]]:
    """Read all trajectories; return what was found, and the candidates that are sampled, in order.

    `max_candidates` of them are drawn, always the same ones; None: all.
    """
    found = Candidates(max_history_chars)
    for path in paths:
        for entry in read_trajectories(path):
            trajectory = entry.trajectory
            if trajectory is None:
                found.problems.append((entry.where, entry.problem))
            elif trajectory.resolved is False or (only_resolved and not trajectory.resolved):
                found.problems.append((trajectory.name, "the expert did not solve it, or it is not known to have"))
            else:
                found.add(trajectory)
    kept = [candidate for candidate in found.rows if not _is_of(held_out, candidate)]
    found.left_out["contaminated"] += len(found.rows) - len(kept)
    if max_candidates is not None and len(kept) > max_candidates:
        drawn = set(random.Random(0).sample(range(len(kept)), max_candidates))
        kept = [candidate for index, candidate in enumerate(kept) if index in drawn]
    return found, kept


def replay_into(
    folder: MiningFolder,
    candidates: Sequence[PivotCandidate],
    images: Mapping[str, StepSnapshot],
    executed: ExecutedOptions,
    options: ReplayOptions,
    *,
    resume: bool,
) -> dict[str, TrajectoryReplay]:
    """Play the trajectories of candidates again; once the policy was asked, return what came of it then."""
    if folder.candidates.exists():
        return read_replays(folder.root)
    if not resume and (folder.root / REPLAYS).exists():
        raise ConfigError(
            f"{folder.root}: holds a mining already: --resume goes on with it, or name another folder",
            kind="folder_used",
        )
    return asyncio.run(replay_candidates(folder.root, candidates, images, executed, options))


def only_replayed(
    found: Candidates, candidates: Sequence[PivotCandidate], replays: Mapping[str, TrajectoryReplay]
) -> list[PivotCandidate]:
    """Return the candidates that have a snapshot; the others are counted as `not_replayed`."""
    kept = [candidate for candidate in candidates if snapshot_of(candidate, replays) is not None]
    found.left_out["not_replayed"] += len(candidates) - len(kept)
    if not kept:
        raise ConfigError("no step of these trajectories could be played again", kind="no_candidates")
    return kept


def _is_of(held_out: HeldOutTasks, candidate: PivotCandidate) -> bool:
    trajectory = candidate.trajectory
    return trajectory.instance_id in held_out.instances or repository_of(candidate) in held_out.repositories


def read_held_out(paths: Sequence[Path], *, by_repository: bool) -> HeldOutTasks:
    """Read which tasks are tested elsewhere: JSON lines with `instance_id`, and `repo` where that counts."""
    instances: set[str] = set()
    repositories: set[str] = set()
    for path in paths:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                row = orjson.loads(line)
                instances.add(row["instance_id"])
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"{path}:{number}: needs a JSON object with `instance_id`: {error!r}", kind="test_set_invalid"
                ) from error
            if by_repository and isinstance(row.get("repo"), str):
                repositories.add(row["repo"])
    return HeldOutTasks(frozenset(instances), frozenset(repositories))


def finish(
    folder: MiningFolder,
    found: Candidates,
    sampled: Sequence[PivotCandidate],
    options: SelectionOptions,
    validation_share: float,
    replays: Mapping[str, TrajectoryReplay],
) -> JsonObject:
    """Choose the pivots by the rewards in the folder's run; write rows and report, and return the report."""
    rewards = folder.rewards()
    candidates = [SampledCandidate(one.uuid, one.trajectory.name, tuple(rewards.get(one.uuid, ()))) for one in sampled]
    choices = choose(candidates, options)
    splits: dict[Split, list[JsonObject]] = {name: [] for name in SPLITS}
    for candidate, drawn in zip(sampled, candidates, strict=True):
        if choices[candidate.uuid] == "pivot":
            row = row_of(candidate, replays)
            row["metadata"] |= {"mean_reward": drawn.mean, "spread": drawn.spread}
            splits[split_of(repository_of(candidate), validation_share)].append(row)
    for name, rows in splits.items():
        folder.write_rows(rows, name)
    report = _report(found, sampled, candidates, choices)
    if replays:
        report["replays"] = replay_report(replays)
    report["rows"] = {name: len(rows) for name, rows in splits.items()}
    folder.write_report(report, _text(report))
    return report


def _report(
    found: Candidates,
    sampled: Sequence[PivotCandidate],
    rewards: Sequence[SampledCandidate],
    choices: Mapping[str, Choice],
) -> JsonObject:
    deepest = max((one.step for one in sampled), default=0) + 1
    keys = {
        "kind": {one.uuid: one.kind for one in sampled},
        "depth": {one.uuid: f"{10 * (10 * one.step // deepest)} %" for one in sampled},
        "repository": {one.uuid: repository_of(one) for one in sampled},
    }
    means = Counter(min(int(one.mean * _BINS), _BINS - 1) for one in rewards if one.rewards)
    return {
        "trajectories": {"unusable": len(found.problems), "problems": dict(found.problems[:100])},
        "steps": {"candidates": len(found.rows), "sampled": len(sampled), **found.left_out},
        "choices": dict(Counter(choices.values())),
        "mean_rewards": [means[number] for number in range(_BINS)],
        **{
            f"by_{name}": {key: dict(count) for key, count in counts_by(choices, of).items()}
            for name, of in keys.items()
        },
    }


def _text(report: JsonObject) -> str:
    """The report for people."""
    lines = ["# Pivots", "", *_table("Steps", report["steps"]), *_table("Sampled candidates", report["choices"])]
    lines += ["## Mean reward of the policy's answers", "", "```"]
    most = max(report["mean_rewards"]) or 1
    for number, count in enumerate(report["mean_rewards"]):
        lines.append(f"{number / _BINS:.1f} {'#' * round(_BAR * count / most):<{_BAR}} {count}")
    lines += ["```", ""]
    for name in ("kind", "depth", "repository"):
        lines += [f"## By {name}", "", f"| {name} | candidates | pivots |", "|---|---|---|"]
        for key, counts in sorted(report[f"by_{name}"].items(), key=lambda pair: -sum(pair[1].values())):
            lines.append(f"| {key} | {sum(counts.values())} | {counts.get('pivot', 0)} |")
        lines.append("")
    return "\n".join([*lines, *_replay_lines(report.get("replays")), *_table("Rows", report["rows"])])


def _replay_lines(replays: JsonObject | None) -> list[str]:
    if replays is None:
        return []
    counts = {name: replays[name] for name in ("steps_with_snapshot", "snapshots", "disk_mib")}
    early = [
        f"- {one['trajectory']}, step {one['step']}: {one['why']}. {one['detail']}" for one in replays["ended_early"]
    ]
    return [*_table("Replays", {**replays["ends"], **counts}), *early, ""]


def _table(title: str, values: Mapping[str, Any]) -> list[str]:
    return [f"## {title}", "", *(f"- {name}: {value}" for name, value in values.items()), ""]
