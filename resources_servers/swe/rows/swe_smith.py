"""SWE-smith rows: `patch` is the bug. It is put into the tree, of which the image has the right one; the fix undoes it.

Source  SWE-bench/SWE-smith: instance_id `owner__repo.commit8.suffix`, patch, FAIL_TO_PASS, PASS_TO_PASS, image_name.
Package swesmith has test command and log parser of each repository: `publishers.python` has the package.
Tests   the repository's own files that the lists name, as the image has them; those that only the fix passes are not
        shown. Of other languages than Python the publisher looks for them in a clone from the network: refused.
Rule    SWE-bench's. The publisher's own leaves a skipped FAIL_TO_PASS test out of the count; here it has failed.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from paddock.resources_servers.swe.instance import LogReader, SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools, describe, interpreter
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.rows.reversal import reversed_patch
from paddock.resources_servers.swe.rows.schema import PublishedRow, TestLists, is_built, patch_bytes, place, validate

NAME = "SWE-smith"
WORKDIR = "/testbed"
KEY = "python"
CONDA = "source /opt/miniconda3/bin/activate; conda activate testbed; "
ID = r"^[^/]+__[^/]+\.[0-9a-f]{8}\.[^/]+$"


class SmithRow(PublishedRow, TestLists):
    instance_id: Annotated[str, Field(pattern=ID)]


def read(row: Mapping[str, Any], tools: PublisherTools) -> SweInstance:
    """Read a SWE-smith row."""
    made = validate(SmithRow, row, NAME)
    repo = made.instance_id.rsplit(".", 1)[0]
    profile = describe(KEY, "smith_profile", tools.python, repo=repo)
    if not profile["python"]:
        raise field_error(
            "instance_id",
            f"a row of {NAME}: the tests of {repo}, no Python, are looked for in a clone from the network",
        )
    f2p, p2p = _files(made.FAIL_TO_PASS), _files(made.PASS_TO_PASS)
    files = sorted({*f2p, *p2p})
    command = profile["test_command"].removeprefix(CONDA) if is_built(row) else profile["test_command"]
    bug = patch_bytes(row, "patch")
    return SweInstance(
        **place({**row, "image_name": row.get("image_name") or profile["image"]}, "swe_smith", WORKDIR).fields(),
        instance_id=made.instance_id,
        dataset="swe_smith",
        repo=made.repo or repo,
        problem_statement=made.problem_statement,
        workdir=WORKDIR,
        gold_patch=reversed_patch(bug),
        image_patch=bug,
        reference_paths=files,
        hidden_paths=[f"{WORKDIR}/{path}" for path in sorted(f2p)],
        test_command=f"{command} {' '.join(files)}" if profile["selects_files"] else command,
        log_reader=LogReader(call="smith_parse", args={"repo": repo}, python=interpreter(tools.python)),
        fail_to_pass=made.FAIL_TO_PASS,
        pass_to_pass=made.PASS_TO_PASS,
    )


def _files(tests: list[str]) -> set[str]:
    """Return the files of tests named as pytest does."""
    files = {test.split("::", 1)[0] for test in tests}
    if strange := [path for path in files if not path.endswith(".py") or path.startswith("/") or ".." in path]:
        raise field_error("FAIL_TO_PASS", f"{min(strange)!r} is no Python file below the tree")
    return files
