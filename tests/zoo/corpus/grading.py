"""Cheats, graded as the `swe` server grades them, and what it pays."""

from pathlib import Path
from typing import NamedTuple

from tests.zoo.corpus.cheats import Cheat, handed_in
from tests.zoo.projects import Project, make_row

from paddock.resources_servers.swe.grading import Grade, Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.resources_servers.swe.server import SweServerConfig, verdict
from paddock.sandbox.local import LocalProvider
from paddock.types import Row

OPTIONS = {"tests_timeout_s": 40, "official": False, "limits": {"memory_mib": 1024, "pids": 512, "disk_mib": 1024}}


class CheatGrade(NamedTuple):
    """One grading."""

    pay: float
    grade: Grade


class CheatGrader(NamedTuple):
    """A project, ready to be graded."""

    folder: Path
    """Its repository."""
    instance: SweInstance
    grader: Grader

    async def grade(self, cheat: Cheat) -> CheatGrade:
        """One grading of a cheat; failures of the machine or the verifier are raised."""
        patch = handed_in(cheat, self.folder)
        grade = await self.grader.grade(self.instance, patch)
        return CheatGrade(verdict(grade, patch, SweServerConfig()).reward, grade)


async def cheat_grader(provider: LocalProvider, project: Project, folder: Path) -> CheatGrader:
    """The grader of a project's cheats, its image built. Its repository goes into `folder`; close the grader."""
    row = await make_row(provider.store, project, folder / project.name)
    instance = read(Row.from_wire({"responses_create_params": {"input": []}, **row}))
    measure = measure_of(provider.settings.home)
    grader = Grader(provider, GradingOptions.model_validate(OPTIONS), resolve_image, measure)
    return CheatGrader(folder / project.name, instance, grader)
