"""The families of rows: the field that tells each, and its adapter.

Law     a row of one data set is never read as what it looks like: the fields that only its own has tell it.
Errors  RowError: a row of two families, or of none.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from paddock.errors import RowError
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import (
    deepswe,
    denovoswe,
    fields,
    multi_swe,
    own,
    r2e_gym,
    swe_bench,
    swe_bench_ext,
    swe_bench_live,
    swe_bench_pro,
    swe_rebench,
    swe_rebench_v2,
    swe_smith,
)
from paddock.types import JsonObject

FAMILY, OWN = "family", "paddock"
Reader = Callable[[JsonObject, PublisherTools], SweInstance]
_V2_KEYS = ("base_image_name", "docker_specs")


class RowFamily(NamedTuple):
    """A family of rows, and the field by which it is recognised."""

    name: str
    key: str
    read: Reader


def _plain(read: Callable[[JsonObject], SweInstance]) -> Reader:
    """Make a reader of one that needs no code of a publisher."""
    return lambda row, tools: read(row)


BY_KEY = (
    RowFamily("r2e_gym", "parsed_commit_content", _plain(r2e_gym.read)),
    RowFamily("swe_bench_ext", "test_framework", swe_bench_ext.read),
    RowFamily(OWN, "test_command", _plain(own.read)),
    RowFamily("swe_bench", "eval_script", _plain(swe_bench.read)),
    RowFamily("multi_swe", "fix_patch", multi_swe.read),
    RowFamily("denovoswe", "passed_ptp", _plain(denovoswe.read)),
    RowFamily("deepswe", "test_sh", _plain(deepswe.read)),
    RowFamily("swe_bench_pro", "before_repo_set_cmd", swe_bench_pro.read),
)
"""Recognised by one field that no other has."""
LIKE_SWE_BENCH = (
    RowFamily("swe_bench_live", "test_cmds", _plain(swe_bench_live.read)),
    RowFamily("swe_rebench_v2", "language", swe_rebench_v2.read),
    RowFamily("swe_rebench", "install_config", _plain(swe_rebench.read)),
    RowFamily("swe_bench", "environment_setup_commit", _plain(swe_bench.read)),
    RowFamily("swe_gym", "test_patch", _plain(swe_bench.read_gym)),
)
"""With SWE-bench's columns: the first whose field is there, in this order."""
SMITH = RowFamily("swe_smith", "instance_id", swe_smith.read)
FAMILIES = {family.name: family for family in (*BY_KEY, *LIKE_SWE_BENCH, SMITH)}


def family_of(task: JsonObject) -> RowFamily:
    """Return the family of a row; RowError where it is of two, or of none that is known."""
    if (name := task.get(FAMILY)) is not None:
        if name not in FAMILIES:
            raise fields.field_error(FAMILY, f"needs one of {', '.join(FAMILIES)}, got {name!r}")
        return FAMILIES[str(name)]
    found = [family for family in BY_KEY if task.get(family.key) is not None]
    if task.get("test_framework") is not None:
        found = [family for family in found if family.name != OWN]
    if len(found) > 1:
        both = " and ".join(f"`{family.key}` ({family.name})" for family in found)
        raise RowError(f"row: has {both}; a row is of one form", kind="task_invalid", stage="seed")
    if found:
        return found[0]
    if task.get("FAIL_TO_PASS") is not None and task.get("test_patch") is not None:
        return next(family for family in LIKE_SWE_BENCH if _matches(family, task))
    if task.get("FAIL_TO_PASS") is not None and re.fullmatch(swe_smith.ID, str(task.get("instance_id"))):
        return SMITH
    keys = ", ".join(f"`{family.key}` ({family.name})" for family in BY_KEY)
    raise RowError(
        f"row: of no known form; needs `test_patch` and `FAIL_TO_PASS` (SWE-bench and its kin), {keys} or "
        "`responses_create_params.metadata.instance_dict` (Nemotron SWE2)",
        kind="task_invalid",
        stage="seed",
    )


def _matches(family: RowFamily, task: JsonObject) -> bool:
    return is_rebench_v2(task) if family.name == "swe_rebench_v2" else task.get(family.key) is not None


def is_rebench_v2(row: JsonObject) -> bool:
    """Say whether a row is of SWE-rebench V2: it has a language, or keys of that data set's tools."""
    config = fields.obj(row, "install_config") if row.get("install_config") is not None else {}
    if any(config.get(key) is not None for key in _V2_KEYS):
        return True
    return row.get("language") is not None and row.get("environment_setup_commit") is None
