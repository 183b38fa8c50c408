"""`paddock samples check`: whether NeMo-RL would train on rollouts as they are meant, and if not, why.

Source  a run's folder, or a file: of rollouts, each of which becomes what `inline` makes of it, or of inline lines. One
        line in memory at a time, besides what tells groups apart. A folder knows too which members failed and have no
        rollout. A torn last line had not ended: it is left out, and said.
Output  per rule that is broken the line, the place and what would be right, as it is found; what is wrong between lines
        comes last. Then counts.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.training.nemo_rl.checking import CheckSettings, Finding
    from paddock.types import JsonObject

SHOWN = 100
"""Findings that are said one by one."""
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
    from paddock.training.nemo_rl.checking import RULES, check_results

    settings = _settings(args)
    lines = _Lines(find_rollouts(source))
    rules: Counter[str] = Counter()
    wrong: set[int] = set()
    for finding in check_results(lines.results(), settings, failed=_failed(source)):
        rules[finding.violation.rule] += 1
        wrong.add(finding.result)
        if rules.total() <= SHOWN:
            effect = EFFECTS[RULES[finding.violation.rule].effect]
            _say(f"{lines.place(finding)}: {finding.violation} ({effect})")
    if rules.total() > SHOWN:
        _say(f"... and {rules.total() - SHOWN} more")
    if lines.torn:
        _say("the last line was torn: its rollout had not ended")
    said = f"{lines.count} results, {lines.masked} of them masked"
    if rules:
        counts = ", ".join(f"{count} {name}" for name, count in rules.most_common())
        _say(f"{said}: {len(wrong)} refused: {counts}")
        return 1
    _say(f"{said}: accepted")
    return 0 if lines.count > lines.masked else 3


def _settings(args: argparse.Namespace) -> "CheckSettings":
    from pydantic import ValidationError

    from paddock.errors import ConfigError, describe
    from paddock.training.nemo_rl.checking import CheckSettings

    try:
        return CheckSettings.model_validate({name: getattr(args, name) for name in CheckSettings.model_fields})
    except ValidationError as error:
        raise ConfigError(describe(error), kind="flag_invalid") from error


def _failed(run: Path) -> Iterator[tuple[int, int]]:
    """Group and member."""
    from paddock.collect.folder import FAILURES
    from paddock.collect.recovery import read_failures

    if run.is_dir():
        yield from (failed.key for failed in read_failures(run / FAILURES))


class _Lines:
    """The lines of a file as results, and where they stand in it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.count = 0
        self.masked = 0
        self.torn = False
        self._blank: list[int] = []
        """Numbers of lines that are empty."""

    def results(self) -> Iterator["JsonObject"]:
        import orjson

        from paddock.errors import ConfigError

        with self.file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    self._blank.append(number)
                    continue
                if not line.endswith(b"\n"):
                    self.torn = True
                    return
                try:
                    wire = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise ConfigError(f"{self.file}:{number}: no JSON: {error}", kind="no_rollouts") from error
                self.count += 1
                yield self._counted(self._result(wire, number))

    def place(self, finding: "Finding") -> str:
        number = finding.result
        for blank in self._blank:
            number += blank <= number
        return f"{self.file}:{number}"

    def _result(self, wire: "JsonObject", number: int) -> "JsonObject":
        """A rollout in its inline form; anything else as it is."""
        from pydantic import ValidationError

        from paddock.errors import ConfigError, PaddockError
        from paddock.http import rollout_from_wire
        from paddock.tokens.export import inline

        if not isinstance(wire, dict) or "rollout" not in wire:
            return wire
        try:
            return inline(rollout_from_wire(wire))
        except (PaddockError, ValidationError) as error:
            raise ConfigError(f"{self.file}:{number}: no rollout: {error}", kind="no_rollouts") from error

    def _counted(self, result: "JsonObject") -> "JsonObject":
        config = result.get("instance_config") if isinstance(result, dict) else None
        self.masked += isinstance(config, dict) and bool(config.get("mask_sample"))
        return result


def _say(line: str) -> None:
    print(line)  # noqa: T201 - the command's voice
