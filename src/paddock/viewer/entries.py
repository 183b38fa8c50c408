"""The rollouts of a run as the viewer lists them; nothing is written.

Source  a run's folder, or a file of rollouts. Lines that the folder's index has are not parsed. Members that ended
        without a verdict are read from `failures.jsonl`: each by its last attempt.
Order   of rows, and of members in a row.
Torn    a last line without its newline is left out.
Errors  ConfigError: no such folder or file, no rollouts in it, or a line that holds none, with its number.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paddock.collect.folder import FAILURES, RUN
from paddock.collect.identity import AgentIdentity, RunIdentity, read_identity
from paddock.collect.lines import Fault, LineSpan, StoredLine, check
from paddock.collect.recovery import indexed_lines, read_failures, read_record, read_rollout, with_span
from paddock.collect.results import FailedAttempt, MemberKey, RolloutResult, result_of, stamped_key
from paddock.collect.reverify import find_rollouts
from paddock.errors import ConfigError
from paddock.http import rollout_from_wire
from paddock.types import JsonObject, Rollout


class Entry(NamedTuple):
    """One rollout of a run."""

    result: RolloutResult
    file: Path
    failed: FailedAttempt | None = None
    """Its last attempt, where it has no verdict."""
    agent: AgentIdentity | None = None
    """Its agent, as the run's folder has it; None: unknown."""

    @property
    def member_id(self) -> str:
        """`group-member`, as commands take it."""
        return f"{self.result.group_id}-{self.result.member}"

    @property
    def name(self) -> str:
        return self.result.row_name or self.result.uuid or ""

    @property
    def harness(self) -> str:
        """The harness in its summary; of an agent that mixes harnesses, the one that was drawn."""
        return self.result.variant or (self.agent.harness if self.agent else "")

    @property
    def rewarded(self) -> bool:
        return (self.result.reward or 0.0) > 0


def read_entries(run: Path) -> list[Entry]:
    """All rollouts, by row and member."""
    file = find_rollouts(run)
    identity = read_identity(run) if run.is_dir() and (run / RUN).exists() else None
    agents = identity.agents if identity else {}
    listed = [Entry(result, file, agent=agents.get(result.agent)) for result in _results(file, identity)]
    judged = {entry.result.key for entry in listed}
    attempts = read_failures(run / FAILURES) if run.is_dir() else ()
    last = {failed.key: failed for failed in attempts if failed.key not in judged}
    listed += [Entry(failed.result(), file, failed, agents.get(failed.agent)) for failed in last.values()]
    return sorted(listed, key=lambda entry: entry.result.key)


def load(entry: Entry) -> Rollout | None:
    """Read the whole rollout; None: it has no verdict, and so was not stored."""
    start, end = entry.result.start, entry.result.end
    if start is None or end is None:
        return None
    with entry.file.open("rb") as file:
        file.seek(start)
        line = file.read(end - start)
    stored = StoredLine(LineSpan(1, start, end), line, entry.result.crc32 or 0, None)
    try:
        check(line, older=True)
        return read_rollout(stored)
    except Fault as fault:
        raise ConfigError(f"{entry.file}: rollout {entry.member_id}: {fault.why}", kind="no_rollouts") from fault


def _results(file: Path, identity: RunIdentity | None) -> Iterator[RolloutResult]:
    for line, result in indexed_lines(file, older=identity is None or identity.older):
        if line.data.isspace():
            continue
        try:
            yield result or _parse_result(line)
        except Fault as fault:
            raise fault.error(file, line.span.number) from fault


def _parse_result(line: StoredLine) -> RolloutResult:
    """The result of a line. Where its row is not stamped, the line's number from 0 is taken for the row's index."""
    rollout, n_turns = read_record(_without_turns, line)
    key = stamped_key(rollout) or MemberKey(line.span.number - 1, 0)
    return with_span(result_of(rollout, key), line).model_copy(update={"turns": n_turns})


def _without_turns(wire: JsonObject) -> tuple[Rollout, int]:
    """A rollout, and how many turns it has: they are most of a line, and of no use in a list."""
    own = wire.get("rollout")
    turns = own.get("turns") if isinstance(own, dict) else None
    if not isinstance(own, dict) or not isinstance(turns, list):
        return rollout_from_wire(wire), 0
    return rollout_from_wire({**wire, "rollout": {**own, "turns": []}}), len(turns)
