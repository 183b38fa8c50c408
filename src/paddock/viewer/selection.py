"""Selects rollouts of a run by a row's index, by `group-member`, or by the row's own name.

Law     one pass; a name may mean several rollouts (the members of a row, the same row under two agents).
Errors  ConfigError that names the nearest row, or what a name means when it has to mean one rollout.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from paddock.collect.results import RolloutResult
from paddock.config.problems import nearest
from paddock.errors import ConfigError
from paddock.viewer.entries import Entry, read_entries

_MAX_COMPARED = 5000
"""Names that are compared with a wrong one."""
_MAX_SHOWN = 8
"""Rollouts that a message lists."""


def without_reward(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Rollouts without a reward, or with one of 0 or less."""
    return (entry for entry in entries if not entry.rewarded)


def select_rollouts(run: Path, wanted: str) -> list[Entry]:
    """The rollouts that `wanted` means; at least one."""
    names: set[str] = set()
    groups: dict[int, list[int]] = {}
    matching = []
    for entry in read_entries(run):
        if _matches(entry.result, wanted):
            matching.append(entry)
        groups.setdefault(entry.result.group_id, []).append(entry.result.member)
        names.update(name for name in (entry.result.row_name, entry.result.uuid) if name)
    if not matching:
        raise ConfigError(f"{run}: no rollout `{wanted}`{_hint(wanted, names, groups)}", kind="no_such_row")
    return matching


def select_rollout(run: Path, wanted: str) -> Entry:
    """The only rollout that `wanted` means."""
    matching = select_rollouts(run, wanted)
    if len(matching) > 1:
        places = ", ".join(entry.member_id for entry in matching[:_MAX_SHOWN])
        more = f" and {len(matching) - _MAX_SHOWN} more" if len(matching) > _MAX_SHOWN else ""
        raise ConfigError(f"`{wanted}` means {len(matching)} rollouts: {places}{more}; name one", kind="row_ambiguous")
    return matching[0]


def _matches(result: RolloutResult, wanted: str) -> bool:
    return wanted in (
        str(result.group_id),
        f"{result.group_id}-{result.member}",
        result.row_name,
        result.uuid,
    )


def _hint(wanted: str, names: Set[str], groups: Mapping[int, Sequence[int]]) -> str:
    if not groups:
        return ": the run has none yet"
    row, dash, member = wanted.partition("-")
    if dash and row.isdecimal() and member.isdecimal() and int(row) in groups:
        members = groups[int(row)]
        has = f"member {members[0]} only" if len(members) == 1 else f"members {_members_text(members)}"
        return f"; row {row} has {has}"
    alike = sorted(name for name in names if name[:3] == wanted[:3]) or sorted(names)
    near = nearest(wanted, alike[:_MAX_COMPARED])
    rows = f"rows {min(groups)} to {max(groups)}" if len(groups) > 1 else f"row {min(groups)}"
    return f"{f'; nearest: `{near}`' if near else ''}; it has {rows}"


def _members_text(members: Sequence[int]) -> str:
    """`0 to 3`, or each member where some are missing."""
    ordered = sorted(members)
    if len(ordered) == ordered[-1] - ordered[0] + 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered[:_MAX_SHOWN])) + (" ..." if len(ordered) > _MAX_SHOWN else "")
