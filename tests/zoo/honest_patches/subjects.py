"""Rows whose fixes are varied: the small projects of the zoo, and any row whose image is there."""

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.zoo.honest_patches.draft import PatchSubject, Runner
from tests.zoo.honest_patches.plain_run import LIMITS, tests_of
from tests.zoo.projects import Project, git, make_row, patch_of, projects

from paddock.resources_servers.swe.grading.sandbox import open_grading_sandbox
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import Provider
from paddock.sandbox.images import ImageStore
from paddock.types import Row

_RUNNERS: dict[str, Runner] = {"unittest": "unittest", "django": "django"}


class PatchCase(NamedTuple):
    """A row, for a grader and for those who vary its fix."""

    instance: SweInstance
    subject: PatchSubject


async def own_cases(images: ImageStore, folder: Path, names: Iterable[str] = ()) -> list[PatchCase]:
    """Cases of our projects: all, or those of these names. Their images are built, their trees put into `folder`."""
    cases = []
    for name, project in projects().items():
        if names and name not in names:
            continue
        row = await make_row(images, project, folder / name)
        instance = read(Row.from_wire({"responses_create_params": {"input": []}, **row}))
        cases.append(PatchCase(instance, own_subject(project, folder / name)))
    return cases


def own_subject(project: Project, folder: Path) -> PatchSubject:
    """The subject of one of our projects, whose repository is in `folder`."""
    gold = patch_of(folder, project.fixed).encode()
    runner = _RUNNERS.get(project.name, "pytest")
    in_place = "pip install" not in project.keys.get("before", "")
    return PatchSubject(project.name, folder, gold, frozenset(project.tests), runner, project.ways, in_place=in_place)


async def case_of(provider: Provider, instance: SweInstance, folder: Path) -> PatchCase:
    """The case of any row, whose tree is copied from its image into `folder`."""
    async with open_grading_sandbox(provider, instance, instance.image, LIMITS) as bench:
        bundle = f"/tmp/{uuid.uuid4().hex}"
        await bench.must(("git", "bundle", "create", "-q", bundle, "HEAD"), "the tree")
        data = await bench.read(bundle)
    assert data is not None
    tree = _cloned(folder, data)
    runner: Runner = "django" if "runtests.py" in (instance.eval_script or "") else "pytest"
    subject = PatchSubject(instance.instance_id, tree, instance.gold_patch, tests_of(instance), runner, own=False)
    return PatchCase(instance, subject)


def _cloned(folder: Path, bundle: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "bundle").write_bytes(bundle)
    git(folder, "clone", "-q", "bundle", "tree")
    return folder / "tree"
