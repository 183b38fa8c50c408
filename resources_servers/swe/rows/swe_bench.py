"""SWE-bench rows (also Lite, Verified): as of swebench 5.x self-contained, older copies without script and parser.

Source  https://www.swebench.com; fields as published. FAIL_TO_PASS and PASS_TO_PASS are JSON text or lists.
Older   rows without `eval_script`, `log_parser`, `image` get the repository's official test command and parser; a
        repository that is in no table must bring `test_cmd` (and `log_parser`).
Others  rows of other data sets with these columns are told by their own fields (`unsupported`, `swe_rebench`).
Recipe  a `paddock` object with a recipe's keys says how to build the image; the script is adapted to it.
"""

from collections.abc import Mapping
from typing import Any

from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import fields, scripts, unsupported
from paddock.resources_servers.swe.rows.commands import swe_bench, swe_gym
from paddock.resources_servers.swe.rows.fields import field_error

WORKDIR = "/testbed"
EVAL_TYPES = ("pass_and_fail", "fail_only")


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read a SWE-bench row."""
    unsupported.refuse(row)
    repo = fields.text(row, "repo")
    test_patch = fields.patch(row, "test_patch")
    own = fields.recipe_fields(row)
    script = fields.optional_text(row, "eval_script")
    if script is None:
        given = fields.optional_text(own, "test_cmd") or fields.optional_text(row, "test_cmd")
        command = swe_bench(repo, test_patch, given)
        if command is None:
            raise field_error(
                "eval_script",
                f"missing, and no test command is known for {repo}: add `test_cmd` and `log_parser` (rows of "
                "SWE-bench itself have `eval_script`, `log_parser`, `eval_type` and `image` since 2026)",
            )
        script = scripts.make(command, test_patch=test_patch, workdir=WORKDIR, conda="python" not in own)
    else:
        script = scripts.adapt(script, install=own.get("install"), recipe="python" in own)
    eval_type = fields.optional_text(row, "eval_type") or "pass_and_fail"
    if eval_type not in EVAL_TYPES:
        raise field_error("eval_type", f"needs one of {', '.join(EVAL_TYPES)}, got {eval_type!r}")
    return instance(row, own, "swe_bench", script, _parser(row, repo), eval_type)


def read_gym(row: Mapping[str, Any]) -> SweInstance:
    """Read a SWE-Gym row: pytest everywhere, the command by repository."""
    unsupported.refuse(row)
    repo = fields.text(row, "repo")
    own = fields.recipe_fields(row)
    given = fields.optional_text(own, "test_cmd") or fields.optional_text(row, "test_cmd")
    test_patch = fields.patch(row, "test_patch")
    command = swe_gym(repo, test_patch, given)
    if command is None:
        raise field_error(
            "repo",
            f"no test command is known for {repo}: add `test_cmd` to the row (and `log_parser`, if not pytest's)",
        )
    script = scripts.make(command, test_patch=test_patch, workdir=WORKDIR, conda="python" not in own)
    parser = fields.optional_text(row, "log_parser") or "parse_log_pytest"
    official.require_parser(parser, "log_parser")
    return instance(row, own, "swe_gym", script, parser, "pass_and_fail")


def instance(
    row: Mapping[str, Any], own: Mapping[str, Any], dataset: Any, script: str, parser: str, eval_type: Any
) -> SweInstance:
    """Make the instance of SWE-bench's columns with a script and a parser."""
    return SweInstance(
        instance_id=fields.text(row, "instance_id"),
        dataset=dataset,
        repo=fields.text(row, "repo"),
        problem_statement=fields.text(row, "problem_statement"),
        image=fields.image(row, own, dataset),
        build=fields.recipe(own, workdir=WORKDIR, key="paddock") if "python" in own else None,
        workdir=WORKDIR,
        base_commit=None if "python" in own else fields.optional_text(row, "base_commit"),
        gold_patch=fields.patch(row, "patch"),
        test_patch=fields.patch(row, "test_patch"),
        eval_script=script,
        log_parser=parser,
        version=fields.optional_text(row, "version") or "",
        eval_type=eval_type,
        fail_to_pass=fields.names(row, "FAIL_TO_PASS"),
        pass_to_pass=fields.names(row, "PASS_TO_PASS"),
        env=fields.strings(own, "env"),
        network=fields.network(own),
        language=fields.optional_text(row, "language") or "python",
    )


def _parser(row: Mapping[str, Any], repo: str) -> str:
    parser = fields.optional_text(row, "log_parser") or official.parser_of(repo)
    if parser is None:
        raise field_error("log_parser", f"missing, and swebench {official.VERSION} names none for {repo}")
    official.require_parser(parser, "log_parser")
    return parser
