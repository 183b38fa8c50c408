"""`paddock samples check`: whether NeMo-RL would train on rollouts as they are meant, and if not, why.

Source  a run's folder, or a file: of rollouts, each of which becomes what `inline` makes of it, or of inline lines. One
        line in memory at a time, besides what tells groups apart. A folder knows too which members failed and have no
        rollout. A torn last line had not ended: it is left out, and said.
Output  per rule that is broken the line, the place and what would be right, as it is found; what is wrong between lines
        comes last. Then why results are masked, and counts.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from paddock.collect.lines import StoredLine
    from paddock.collect.results import RolloutResult
    from paddock.training.nemo_rl.checks import CheckSettings, FailedMember, ResultFinding
    from paddock.types import JsonObject

SHOWN = 100
"""Findings that are printed one by one."""
EFFECTS = {
    "rollout": "the rollouts of its batch are lost",
    "batch": "the batch is lost",
    "silent": "it would train on something else, silently",
}


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Names are those of `CheckSettings`."""
    group.add_argument("--max-total-sequence-length", type=int, metavar="N", help="tokens that a sequence may have")
    group.add_argument("--overlong-filtering", action="store_true", help="what a budget cut shall not be trained on")
    group.add_argument("--vocabulary-size", type=int, metavar="N", help="rows of the model's embedding")
    group.add_argument("--require-routed-experts", action="store_true", help="router replay is on")
    group.add_argument("--temperature", type=float, metavar="T", help="with which training samples")
    group.add_argument("--top-p", type=float, metavar="P", help="with which training samples")


def run(args: argparse.Namespace, source: Path) -> int:
    from paddock.collect.reverify import find_rollouts
    from paddock.training.nemo_rl.checks import RULES, check_results

    settings = _settings(args)
    lines = _ResultLines(find_rollouts(source))
    rules: Counter[str] = Counter()
    wrong: set[int] = set()
    for finding in check_results(lines.results(), settings, failed=_failed(source, lines)):
        rules[finding.violation.rule] += 1
        wrong.add(finding.result)
        if rules.total() <= SHOWN:
            effect = EFFECTS[RULES[finding.violation.rule].effect]
            _say(f"{lines.location(finding)}: {finding.violation} ({effect})")
    if rules.total() > SHOWN:
        _say(f"... and {rules.total() - SHOWN} more")
    if lines.torn:
        _say("the last line was torn: its rollout had not ended")
    for line in lines.why_masked():
        _say(line)
    counts = f"{lines.count} results, {lines.masked.total()} of them masked"
    if rules:
        _say(f"{counts}: {len(wrong)} refused: {_counts(rules)}")
        return 1
    _say(f"{counts}: accepted")
    return 0 if lines.count > lines.masked.total() else 3


def _settings(args: argparse.Namespace) -> "CheckSettings":
    from pydantic import ValidationError

    from paddock.errors import ConfigError, describe
    from paddock.training.nemo_rl.checks import CheckSettings

    try:
        return CheckSettings.model_validate({name: getattr(args, name) for name in CheckSettings.model_fields})
    except ValidationError as error:
        raise ConfigError(describe(error), kind="flag_invalid") from error


def _failed(run: Path, lines: "_ResultLines") -> "Iterator[FailedMember]":
    """The member of each failed attempt, of groups that have results; read after these."""
    from paddock.collect.folder import FAILURES
    from paddock.collect.recovery import read_failures
    from paddock.training.nemo_rl.checks import FailedMember

    if not run.is_dir():
        return
    for failed in read_failures(run / FAILURES):
        row = lines.rows.get(failed.group_id)
        if row is not None:
            yield FailedMember(row.task, failed.member, row.epoch)


class _EpochRow(NamedTuple):
    """The row of a group."""

    task: int
    """The row's index."""
    epoch: int | None


class _ResultLines:
    """The lines of a file as results, and where they stand in it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.count = 0
        self.masked: Counter[str] = Counter()
        """By reason."""
        self.untrained: Counter[str] = Counter()
        """Turns of rollouts without one to train on, by why they are not trained on."""
        self.torn = False
        self.rows: dict[int, _EpochRow] = {}
        """By the run's number of the group: in a training run that is not the row's index."""
        self._blank: list[int] = []
        """Numbers of lines that are empty."""

    def results(self) -> Iterator["JsonObject"]:
        import orjson

        from paddock.collect.lines import Fault
        from paddock.collect.recovery import indexed_lines, may_be_older, torn_bytes
        from paddock.errors import ConfigError

        for line, indexed in indexed_lines(self.file, older=may_be_older(self.file)):
            number = line.span.number
            if line.data.isspace():
                self._blank.append(number)
                continue
            try:
                wire = orjson.loads(line.data)
            except orjson.JSONDecodeError as error:
                raise ConfigError(f"{self.file}:{number}: no JSON: {error}", kind="no_rollouts") from error
            self.count += 1
            self._note_row(wire, indexed)
            try:
                yield self._counted(self._result(wire, line))
            except Fault as fault:
                raise fault.error(self.file, number) from fault
        self.torn = torn_bytes(self.file) > 0

    def location(self, finding: "ResultFinding") -> str:
        number = finding.result
        for blank in self._blank:
            number += blank <= number
        return f"{self.file}:{number}"

    def _note_row(self, wire: Any, indexed: "RolloutResult | None") -> None:
        row = wire.get("_ng_task_index") if isinstance(wire, dict) else None
        if isinstance(row, int):
            group = indexed.group_id if indexed else row
            self.rows[group] = _EpochRow(row, wire.get("_paddock_epoch"))

    def _result(self, wire: "JsonObject", line: "StoredLine") -> "JsonObject":
        """A rollout in its inline form; anything else as it is."""
        from paddock.collect.recovery import read_rollout
        from paddock.tokens.export import inline, plan_rollout

        if not isinstance(wire, dict) or "rollout" not in wire:
            return wire
        rollout = read_rollout(line)
        result = inline(rollout)
        if result["instance_config"].get("mask_reason") == "no_trainable_turn":
            self.untrained.update(turn.reason for turn in plan_rollout(rollout, "chain").skipped)
        return result

    def _counted(self, result: "JsonObject") -> "JsonObject":
        config = result.get("instance_config") if isinstance(result, dict) else None
        if isinstance(config, dict) and config.get("mask_sample"):
            self.masked[str(config.get("mask_reason") or "no reason given")] += 1
        return result

    def why_masked(self) -> Iterator[str]:
        """In words, why results are masked."""
        if self.masked:
            yield f"masked: {_counts(self.masked)}"
        if self.untrained:
            yield f"turns of those without one to train on: {_counts(self.untrained)}"
        if self.untrained["engine_text"]:
            yield "engine_text: the endpoint gives no token ids; those of models_servers/vllm are exact"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common())


def _say(line: str) -> None:
    print(line)  # noqa: T201 - the command's voice
