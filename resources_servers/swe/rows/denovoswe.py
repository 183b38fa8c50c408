"""denovoswe rows: a package to be written anew from its document; tests that the original passed, and no reference fix.

Source  AweAI-Team/DeNovoSWE (parent_commit, workdir, document, test_patch, passed_ptp), or NeMo-Gym's form of it.
Image   published ones hold the original source, which is the answer: the publisher's clean.sh takes it out. A row must
        name an image that was made so (`paddock: {image: NAME}`), or a recipe of one; else it is refused.
Rule    all of `passed_ptp` pass (the publisher's reward is their share). Files are run one by one.
Control there is none: a run in doubt has no verdict, and tests made false are not tried.
"""

import base64
import binascii
import io
import shlex
import tarfile
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.official import END, START
from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.rows.schema import TestNames, Text, is_built, lacks, patch_bytes, place, validate

NAME = "denovoswe"
PYTEST = "python3 -m pytest -rA --tb=short -p no:cacheprovider -o addopts="
INSTALL = "pip install --no-build-isolation --no-deps --no-index -e ."
FIXTURES_MIB = 64


class DeNovoRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    instance_id: Text
    repo: str = ""
    document: Text
    workdir: Annotated[str, Field(pattern="^/")] = Field(validation_alias=AliasChoices("workdir", "workspace_path"))
    test_patch: Text
    passed_ptp: Annotated[TestNames, Field(min_length=1)]
    test_binary_archive_b64: str | None = None


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read a denovoswe row."""
    made = validate(DeNovoRow, row, NAME)
    clean = fields.optional_text(fields.recipe_fields(row), "image")
    if not is_built(row) and clean is None:
        raise lacks(
            "paddock.image",
            f"a row of {NAME}, whose published image holds the source that is to be written",
            "make an image without it by the publisher's clean.sh, and name that as `paddock: {image: NAME}`",
        )
    files = sorted({test.split("::", 1)[0] for test in made.passed_ptp})
    return SweInstance(
        **place({**row, "image": clean}, "swe_bench_local", made.workdir).fields(),
        instance_id=made.instance_id,
        dataset="denovoswe",
        repo=made.repo,
        problem_statement=made.document,
        workdir=made.workdir,
        gold_patch=b"",
        test_patch=patch_bytes(row, "test_patch"),
        test_files=_fixtures(made),
        eval_script="\n".join(
            [f"cd {shlex.quote(made.workdir)}", INSTALL, f": '{START}'", _command(files), f": '{END}'", ""]
        ),
        rule="passed",
        fail_to_pass=made.passed_ptp,
    )


def _command(files: list[str]) -> str:
    if len(files) == 1:
        return f"{PYTEST} {shlex.quote(files[0])}"
    runs = [f"{PYTEST} {shlex.quote(path)} || status=$?" for path in files]
    return "\n".join(["status=0", *runs, "(exit $status)"])


def _fixtures(made: DeNovoRow) -> dict[str, bytes]:
    """Return the binary files of the tests, by path."""
    if not (made.test_binary_archive_b64 or "").strip():
        return {}
    found: dict[str, bytes] = {}
    left = FIXTURES_MIB << 20
    try:
        data = base64.b64decode(made.test_binary_archive_b64 or "", validate=False)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|gz") as archive:
            for member in archive:
                path = member.name.removeprefix("./")
                left -= member.size
                if left < 0:
                    raise field_error("test_binary_archive_b64", f"holds more than {FIXTURES_MIB} MiB")
                if path.startswith("/") or ".." in path.split("/"):
                    raise field_error("test_binary_archive_b64", f"{path!r} is no path below the workdir")
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    found[path] = file.read()
    except (binascii.Error, tarfile.TarError, OSError, EOFError) as error:
        raise field_error("test_binary_archive_b64", f"no archive: {error}") from error
    return found
