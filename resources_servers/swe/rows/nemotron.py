"""Rows of the Nemotron SWE2 blend: the source row as JSON text in `responses_create_params.metadata.instance_dict`.

Choice  by the exact `dataset_name` beside it (`READERS`). A name that is not one of these may be another data set, with
        another grader: only what looks mistyped by a letter is told a nearest one.
Own     `nv-internal-1` brings its runner and its log reader as programs; its tree is at `/app`; its rule is `passed`.
        The last line of `before_repo_set_cmd` puts the reference tests into the tree.
Errors  RowError names the dataset names that are known.
"""

import ast
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.families import FAMILIES, Reader
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.types import Row

WORKDIR = "/app"
TOOLS = "/tmp/paddock-tests"  # noqa: S108 - inside the sandbox
_MISTYPED = 0.97
"""Likeness of names from which on one is taken for the other, mistyped: `_Live` and `_Lite` are not."""


def read(row: Row, tools: PublisherTools) -> SweInstance:
    """Read a SWE2 row."""
    metadata = row.responses_create_params.get("metadata")
    if not isinstance(metadata, Mapping):
        raise field_error("responses_create_params.metadata", "needs an object")
    source = {
        **{key: row.task[key] for key in ("paddock",) if key in row.task},
        **fields.obj(metadata, "instance_dict"),
    }
    for key in ("instance_id", "problem_statement"):
        source.setdefault(key, metadata.get(key))
    if "patch" not in source and metadata.get("golden_patch"):
        source["patch"] = metadata["golden_patch"]
    name = fields.text(metadata, "dataset_name")
    reader = READERS.get(name)
    if reader is None:
        near = get_close_matches(name, READERS, n=1, cutoff=_MISTYPED)
        hint = (
            f"nearest: {near[0]!r}" if near else f"its rows may need a grader of their own; known: {', '.join(READERS)}"
        )
        raise field_error("responses_create_params.metadata.dataset_name", f"{name!r} has no adapter; {hint}")
    return reader(source, tools)


def read_internal(row: Mapping[str, Any]) -> SweInstance:
    """Read an `nv-internal-1` row."""
    own = fields.recipe_fields(row)
    selected = _selected(row)
    before = [line for line in str(row.get("before_repo_set_cmd") or "").splitlines() if line.strip()]
    built = "python" in own
    return SweInstance(
        instance_id=fields.text(row, "instance_id"),
        dataset="nv_internal",
        repo=fields.optional_text(row, "repo") or "",
        problem_statement=fields.text(row, "problem_statement"),
        image=fields.image(row, own if built else {}, "swe_bench_local"),
        build=fields.recipe(own, workdir=WORKDIR, key="paddock") if built else None,
        workdir=WORKDIR,
        base_commit=None if built else fields.optional_text(row, "base_commit"),
        gold_patch=fields.patch(row, "patch"),
        test_patch=fields.optional_patch(row, "test_patch"),
        test_setup=before[-1].strip() if before else None,
        test_tools={f"{TOOLS}/run_script.sh": fields.text(row, "run_script.sh").encode()},
        test_command=f"bash {TOOLS}/run_script.sh {shlex.quote(','.join(selected))}",
        log_program=fields.text(row, "parsing_script.py").encode(),
        rule="passed",
        fail_to_pass=_tests(row, "fail_to_pass"),
        pass_to_pass=_tests(row, "pass_to_pass"),
        env={
            **fields.dockerfile_env(str(row.get(key) or "") for key in ("base_dockerfile", "instance_dockerfile")),
            **fields.strings(own, "env"),
        },
        network=fields.network(own),
        language=fields.optional_text(row, "repo_language") or "python",
    )


def _tests(row: Mapping[str, Any], key: str) -> list[str]:
    chosen = f"{key}_select"
    return _listed(row, chosen if row.get(chosen) else key)


def _selected(row: Mapping[str, Any]) -> list[str]:
    return _listed(row, "selected_test_files_to_run")


def _listed(row: Mapping[str, Any], key: str) -> list[str]:
    """Read a list of strings, given as itself, as JSON or as Python shows it."""
    value = row.get(key)
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return fields.names(row, key)
    return fields.names({key: value}, key)


def _named(family: str, *names: str) -> dict[str, Reader]:
    return dict.fromkeys(names, FAMILIES[family].read)


READERS: dict[str, Reader] = {
    **_named(
        "swe_bench",
        *(
            f"{owner}/SWE-bench{kind}"
            for owner in ("princeton-nlp", "SWE-bench")
            for kind in ("", "_Lite", "_Verified", "_Multilingual", "_Multimodal")
        ),
    ),
    **_named("swe_rebench", "nebius/SWE-rebench", "nebius/SWE-bench-extra"),
    **_named("swe_rebench_v2", "nebius/SWE-rebench-V2"),
    **_named("swe_gym", "SWE-Gym/SWE-Gym", "SWE-Gym/SWE-Gym-Lite"),
    **_named("r2e_gym", *(f"R2E-Gym/R2E-Gym{kind}" for kind in ("", "-Subset", "-Lite", "-V1", "-Full"))),
    **_named("swe_bench_live", "SWE-bench-Live/SWE-bench-Live", "SWE-bench-Live/MultiLang"),
    **_named("swe_bench_pro", "ScaleAI/SWE-bench_Pro"),
    **_named("swe_smith", "SWE-bench/SWE-smith"),
    **_named("multi_swe", "ByteDance-Seed/Multi-SWE-bench"),
    **{name: FAMILIES[name.replace("-", "_")].read for name in ("swe-bench-ext", "deepswe", "denovoswe")},
    "nv-internal-1": lambda row, tools: read_internal(row),
}
