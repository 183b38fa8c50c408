"""R2E-Gym's reading of a pytest log, and its rule: the map of all statuses must be the expected one.

Ids     what follows the first `::`, its parts joined by `.`, so the file's name is no part of it; a line without `::`
        (a file that could not be collected) has the empty id.
Text    from the first "short test summary info" on; colours and ` - reason` are cut from both maps.
"""

import re
from collections.abc import Mapping

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
HEADING = "short test summary info"
STATUSES = ("PASSED", "FAILED", "ERROR")


def parse_summary(log: str) -> dict[str, str]:
    """Read a log's summary: status by id; empty where there is none."""
    _, heading, summary = log.partition(HEADING)
    result: dict[str, str] = {}
    for raw in summary.splitlines() if heading else []:
        line = ANSI.sub("", raw).strip()
        status = next((status for status in STATUSES if line.startswith(status)), None)
        if status is not None:
            result[_id(line.removeprefix(status).strip())] = status
    return result


def normalise_ids(statuses: Mapping[str, str]) -> dict[str, str]:
    """Return the map with ids as `parse_summary` has them."""
    return {ANSI.sub("", name).split(" - ", maxsplit=1)[0].strip(): status for name, status in statuses.items()}


def statuses_match(expected: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    """Apply the rule: as many keys, each expected one with its status."""
    left, right = normalise_ids(expected), normalise_ids(actual)
    return len(left) == len(right) and all(right.get(name) == status for name, status in left.items())


def _id(name: str) -> str:
    path = name.split(" - ", maxsplit=1)[0].strip()
    return ".".join(path.split("::")[1:])
