"""Which rollouts of a run are meant: a row's index, `group-member`, or what the row calls itself.

Law     one pass; a name may mean several rollouts (the members of a row, the same row under two agents).
Errors  ConfigError that names the nearest row, or what a name means when it has to mean one rollout.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from paddock.collect.results import RolloutResult
from paddock.config.problems import nearest
from paddock.errors import ConfigError
from paddock.viewer.stored import Entry, entries

_TRIED = 5000
"""Names that are compared with a wrong one."""
_SHOWN = 8
"""Rollouts that a message lists."""


def failed_only(found: Iterator[Entry]) -> Iterator[Entry]:
    """Rollouts without a reward, or with one of 0 or less."""
    return (entry for entry in found if not entry.paid)


def chosen(run: Path, wanted: str) -> list[Entry]:
    """The rollouts that `wanted` means; at least one."""
    names: set[str] = set()
    groups: dict[int, list[int]] = {}
    found = []
    for entry in entries(run):
        if _is(entry.result, wanted):
            found.append(entry)
        groups.setdefault(entry.result.group_id, []).append(entry.result.member)
        names.update(name for name in (entry.result.row_name, entry.result.uuid) if name)
    if not found:
        raise ConfigError(f"{run}: no rollout `{wanted}`{_hint(wanted, names, groups)}", kind="no_such_row")
    return found


def the_one(run: Path, wanted: str) -> Entry:
    """The only rollout that `wanted` means."""
    found = chosen(run, wanted)
    if len(found) > 1:
        places = ", ".join(entry.place for entry in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ConfigError(f"`{wanted}` means {len(found)} rollouts: {places}{more}; name one", kind="row_ambiguous")
    return found[0]


def _is(result: RolloutResult, wanted: str) -> bool:
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
        has = f"member {members[0]} only" if len(members) == 1 else f"members {_listed(members)}"
        return f"; row {row} has {has}"
    alike = sorted(name for name in names if name[:3] == wanted[:3]) or sorted(names)
    near = nearest(wanted, alike[:_TRIED])
    rows = f"rows {min(groups)} to {max(groups)}" if len(groups) > 1 else f"row {min(groups)}"
    return f"{f'; nearest: `{near}`' if near else ''}; it has {rows}"


def _listed(members: Sequence[int]) -> str:
    """`0 to 3`, or each where some are missing."""
    ordered = sorted(members)
    if len(ordered) == ordered[-1] - ordered[0] + 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered[:_SHOWN])) + (" ..." if len(ordered) > _SHOWN else "")
