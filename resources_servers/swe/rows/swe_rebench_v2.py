"""SWE-rebench V2 rows: about 20 languages, a tree at /REPOSITORY, parsers of that data set's own by name.

Source  nebius/SWE-rebench-V2: SWE-bench's columns, `language`, `image_name`, `install_config.{test_cmd,log_parser}`.
Parsers are functions of the publisher's repository, which `publishers.swe_rebench_v2` names a checkout of.
Rule    FAIL_TO_PASS and PASS_TO_PASS all PASSED, names without the times that some runners write into them.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from paddock.resources_servers.swe.instance import LogReader, SweInstance
from paddock.resources_servers.swe.publisher_parsers import without_times
from paddock.resources_servers.swe.publishers import PublisherTools, describe, interpreter
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.rows.schema import (
    Commands,
    PublishedRow,
    TestLists,
    Text,
    lacks,
    patch_bytes,
    place,
    validate,
)

NAME = "SWE-rebench V2"
ENV = {"_JAVA_OPTIONS": "-Djava.net.preferIPv6Addresses=false"}


class RebenchV2Config(BaseModel):
    """How a row is tested; its other keys made the image."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    test_cmd: Annotated[Commands, Field(min_length=1)]
    log_parser: Text


class RebenchV2Row(PublishedRow, TestLists):
    repo: Annotated[str, Field(pattern=r"^[^/]+/[^/]+$")]
    test_patch: Text
    language: str = "python"
    install_config: RebenchV2Config


def read(row: Mapping[str, Any], tools: PublisherTools) -> SweInstance:
    """Read a SWE-rebench V2 row."""
    made = validate(RebenchV2Row, row, NAME)
    folder, parser = tools.swe_rebench_v2, made.install_config.log_parser
    if folder is None:
        raise lacks(
            "install_config.log_parser",
            f"{parser!r} is a parser of {NAME}'s own",
            "name a checkout of SWE-rebench/SWE-rebench-V2 as `publishers: {swe_rebench_v2: FOLDER}`",
        )
    if not describe("swe_rebench_v2", "rebench_parser", None, folder=str(folder), parser=parser):
        raise field_error("install_config.log_parser", f"{folder} has no parser {parser!r}")
    workdir = f"/{made.repo.split('/')[1]}"
    found = place(row, "swe_rebench_v2", workdir)
    return SweInstance(
        **{**found.fields(), "env": {**ENV, **found.env}},
        instance_id=made.instance_id,
        dataset="swe_rebench_v2",
        repo=made.repo,
        problem_statement=made.problem_statement,
        workdir=workdir,
        gold_patch=patch_bytes(row, "patch"),
        test_patch=patch_bytes(row, "test_patch"),
        # As in the publisher's script, where a command that fails ends it.
        test_command="\n".join(["set -e", *made.install_config.test_cmd]),
        log_reader=LogReader(
            call="rebench_parse", args={"folder": str(folder), "parser": parser}, python=interpreter(None)
        ),
        rule="passed",
        fail_to_pass=[without_times(name) for name in made.FAIL_TO_PASS],
        pass_to_pass=[without_times(name) for name in made.PASS_TO_PASS],
        language=made.language,
    )
