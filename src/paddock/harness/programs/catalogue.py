"""Which harnesses are programs, and which program a name and a version mean.

Law     a harness is a program when its class has `program`; the version that its settings have by default is the pinned
        one.
Errors  ConfigError: an unknown harness, one that is no program, a version that can't be one.
"""

from typing import NamedTuple, cast

from pydantic import ValidationError

from paddock.config import implementations
from paddock.config.problems import suggestion
from paddock.errors import ConfigError, describe
from paddock.harness.contract import ProgramHarness
from paddock.harness.factory import KIND, harness_class, make_harness
from paddock.harness.programs.program import Program


class ProgramCatalogue(NamedTuple):
    """The harnesses that run programs."""

    programs: dict[str, Program]
    """The pinned program of each, by the harness's name."""
    broken: dict[str, str]
    """Harnesses that do not load, with the error."""


def program_of(spec: str, version: str | None = None) -> Program:
    """Return the program that a harness runs, in its pinned version or another. `spec`: a folder of harnesses, or
    `module:Class`. Raises ConfigError."""
    if not is_program(spec):
        hint = suggestion(spec, load_catalogue().programs, label="programs")
        raise ConfigError(f"harness {spec} is our own code, nothing to install{hint}", kind="no_program")
    try:
        return cast("ProgramHarness", make_harness(spec, {"version": version} if version else {})).program
    except ValidationError as error:
        raise ConfigError(f"harness {spec}: {describe(error)}", kind="program_invalid") from error


def is_program(spec: str) -> bool:
    """Whether a harness runs a program that is not ours."""
    return hasattr(harness_class(spec), "program")


def load_catalogue() -> ProgramCatalogue:
    """Look through all folders of harnesses; one that does not load holds up no other."""
    catalogue = ProgramCatalogue({}, {})
    for name in implementations(KIND):
        try:
            if is_program(name):
                catalogue.programs[name] = program_of(name)
        except ConfigError as error:
            catalogue.broken[name] = str(error)
    return catalogue
