"""`paddock samples`: from rollouts to what a trainer reads, a JSON line per sample. `paddock samples check` is beside.

Source  a run's folder, or a file of rollouts: one of them in memory at a time, none changed. A torn last line had not
        ended: it is left out, and said.
Output  lines to `--out`, which is there only when all of them are; without it to stdout. Counts to stdout, or to stderr
        where the lines are on stdout.
Exit    0 written, or accepted; 1 a rule is broken; 2 a mistake; 3 there was nothing to train on.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from paddock.cli import samples_check

if TYPE_CHECKING:
    from paddock.collect.results import MemberKey
    from paddock.tokens.export import Mode, SamplePlan, Summary
    from paddock.types import JsonObject, Outcome, Rollout

HELP = """modes:
  branch           a sample per leaf of a rollout's tree of turns; what leaves share is trained on once (default)
  whole            one sample per rollout: the path to its last turn; turns beside that path are left out
  chain            one sample per rollout: of the paths from its first prompt on, the last; others are left out
  dynamic_history  a sample per turn: its whole prompt, and what it sampled

lines:
  _paddock_format                           of the line: a later one is refused by what reads it
  _paddock_run_id, _ng_task_index, _paddock_group_size, _ng_rollout_index, ...   run, group, its size, member
  row, outcome, reward, engine, mode        of the rollout; reward: null without a verdict
  sample, samples                           index among the rollout's samples, and how many it has
  cut                                       true: a budget ended it
  ids, loss_mask, log_probs                 per token: id, 1 where it is trained on, log-prob where it is
  spans                                     who sampled what: turn, start, end, weight_version, trained
  finish_reason                             of the last turn
  routed_experts                            where they were recorded: `nrlre1:<dtype>:<rows>x<layers>x<k>:<base64>`, of
                                            little-endian integers; a row for each id but the last

check:
  Says of a run, of a file of rollouts (each as --inline would write it) or of a file of inline lines what NeMo-RL would
  make of it: counts and `accepted`, or per line which rule is broken, in which item, turn and token, and what NeMo-RL
  does then: it loses the rest of the batch of rollouts, loses the batch, or silently trains on something else.

exit codes:
  0  the lines are written; check: all are accepted
  1  check: a rule is broken
  2  a mistake in the command, or a file that has no rollouts; a file of --out is as it was
  3  nothing can be trained on: no rollout has a sample, the counts say why; check: all that is accepted is masked

examples:
  paddock samples runs/mine --out samples.jsonl
  paddock samples runs/mine --mode dynamic_history | head -n 1
  paddock samples rollouts.jsonl --inline --out nemo_rl.jsonl
  paddock samples check nemo_rl.jsonl --max-total-sequence-length 131072"""
USAGE = """paddock samples [-h] [--mode MODE] [--out FILE] [--inline] [--all] RUN_DIR|FILE
       paddock samples check [options of check] RUN_DIR|FILE"""
MODES = ("whole", "chain", "branch", "dynamic_history")
INLINE_MODES = (None, "chain", "whole")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = HELP
    parser.usage = USAGE
    parser.add_argument(
        "rollouts", nargs="+", metavar="[check] RUN_DIR|FILE", help="folder of a run, or a file of rollouts"
    )
    parser.add_argument("--mode", choices=MODES, help="which samples a rollout gives; see below")
    parser.add_argument("--out", metavar="FILE", help="file of the lines (default: stdout)")
    parser.add_argument(
        "--inline",
        action="store_true",
        help="a line per rollout, its ids inside its response, as NeMo-RL reads them (mode `chain`, or `whole`)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also rollouts without a reward (with --inline they are masked and hold a placeholder)",
    )
    samples_check.add_arguments(parser.add_argument_group("options of check"))


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError

    *words, path = args.rollouts
    if words not in ([], ["check"]):
        raise ConfigError(f"one folder or file is read, not {len(args.rollouts)}", kind="flag_invalid")
    if args.inline and args.mode not in INLINE_MODES:
        raise ConfigError(f"--inline is one path per rollout: it goes with no --mode {args.mode}", kind="flag_invalid")
    try:
        return samples_check.run(args, Path(path)) if words else _export(args, Path(path))
    except BrokenPipeError:
        # The reader has seen enough; without this the interpreter complains as it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _export(args: argparse.Namespace, source: Path) -> int:
    from paddock.collect.reverify import find_rollouts
    from paddock.errors import ConfigError
    from paddock.tokens.export import Summary

    file = find_rollouts(source)
    target = Path(args.out) if args.out else None
    if target is not None and target.exists() and target.samefile(file):
        raise ConfigError(f"--out {target}: these are the rollouts themselves", kind="flag_invalid")
    mode: Mode = args.mode or ("chain" if args.inline else "branch")
    summary = Summary()
    with _open_output(target) as output:
        notes = _write(args, source, mode, summary, output)
    voice = sys.stdout if target else sys.stderr
    for line in (*summary.lines(), *notes):
        print(line, file=voice)
    return 0 if summary.samples else 3


def _write(args: argparse.Namespace, source: Path, mode: "Mode", summary: "Summary", output: BinaryIO) -> list[str]:
    """Write all lines; what is to be said besides the counts."""
    import orjson

    from paddock.collect.recovery import torn_bytes
    from paddock.collect.reverify import find_rollouts
    from paddock.tokens.export import plan_rollout

    members: set[MemberKey | None] = set()
    notes = []
    file = find_rollouts(source)
    for key, rollout in _rollouts(file):
        members.add(key)
        if rollout.reward is None and not args.all:
            summary.left_out(rollout.outcome)
            continue
        planned = plan_rollout(rollout, mode)
        summary.add(rollout.outcome, planned)
        for line in _lines(rollout, mode, planned, inline=args.inline):
            output.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    if torn_bytes(file):
        notes.append("the last line was torn: its rollout had not ended")
    for outcome in _failures(source, members):
        summary.left_out(outcome)
    if summary.outcomes.total() and not args.all:
        notes.append("rollouts without a reward are not written; --all writes those that are in the file")
    return notes


def _lines(rollout: "Rollout", mode: "Mode", planned: "SamplePlan", *, inline: bool) -> "Iterator[JsonObject]":
    from paddock.tokens.export import inline as in_response
    from paddock.tokens.export import rollout_samples

    if inline:
        yield in_response(rollout, "whole" if mode == "whole" else "chain")
        return
    for sample in rollout_samples(rollout, mode, planned):
        yield sample.to_wire()


def _rollouts(file: Path) -> "Iterator[tuple[MemberKey | None, Rollout]]":
    """Each rollout, under the group and member that the run's failures have, too."""
    from paddock.collect.lines import Fault
    from paddock.collect.recovery import indexed_lines, may_be_older, read_rollout
    from paddock.collect.results import stamped_key

    for line, result in indexed_lines(file, older=may_be_older(file)):
        if line.data.isspace():
            continue
        try:
            rollout = read_rollout(line)
            yield result.key if result else stamped_key(rollout), rollout
        except Fault as fault:
            raise fault.error(file, line.span.number) from fault


def _failures(run: Path, members: "set[MemberKey | None]") -> "Iterator[Outcome]":
    """Of a folder: how its members ended that are not among its rollouts, each by its last attempt."""
    from paddock.collect.folder import FAILURES
    from paddock.collect.recovery import read_failures

    if run.is_dir():
        last = {failed.key: failed.outcome for failed in read_failures(run / FAILURES) if failed.key not in members}
        yield from last.values()


@contextmanager
def _open_output(target: Path | None) -> Iterator[BinaryIO]:
    """stdout, or a new file that takes its place when everything is in it."""
    from paddock.collect.new_file import new_file

    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(target, make_folder=False) as file:
        yield file
