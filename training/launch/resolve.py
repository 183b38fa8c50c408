"""The settings of one launch from all their sources, and the source of each.

Law     the command line wins over the environment, that over the profile, that over the default. An empty variable
        counts as missing. Variables of other programs are not read.
Errors  ConfigError with every problem: the source, the variable, and the nearest right one. A variable of the
        environment whose name is close to one of ours is a note: it may be another program's.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from paddock.config.problems import raise_all, suggestion
from paddock.training.launch.problems import problems
from paddock.training.launch.profiles import LaunchProfile
from paddock.training.launch.settings import NEMO_RL_FIELDS, VARIABLES, RunLaunchSettings, variable_of

COMMAND_LINE = "command line"
ENVIRONMENT = "environment"
DEFAULT = "default"
_NEAR_MISS = 0.85
"""A variable of the environment that is as similar as this to one of ours is noted."""
_OTHERS = re.compile(r"SLURM_JOB|PADDOCK_\w+_PYTHON$")
"""SLURM's own, inside a job, and what names interpreters of other parts, such as `PADDOCK_TRL_PYTHON`."""
_FIELDS = {variable: field for field, variable in VARIABLES.items()}


class ResolvedLaunch(NamedTuple):
    """The settings of one launch, and where they come from."""

    settings: RunLaunchSettings
    origins: dict[str, str]
    """The source of each field that is not its default."""
    notes: list[str]
    """Lines about settings without an effect."""


def resolve(command: Mapping[str, Any], environ: Mapping[str, str], profile: LaunchProfile) -> ResolvedLaunch:
    """Resolve a launch. `command`: the settings of the command line, by variable, or by field where it has none."""
    raise_all(
        f"{COMMAND_LINE}: unknown variable {name}{suggestion(name, _FIELDS)}"
        for name in command
        if name not in _FIELDS and name not in RunLaunchSettings.model_fields
    )
    given = {
        **profile.given,
        **{field: (environ[name], ENVIRONMENT) for name, field in _FIELDS.items() if environ.get(name)},
        **{_FIELDS.get(name, name): (value, COMMAND_LINE) for name, value in command.items() if value != ""},
    }
    if "exp_name" not in given and "config_path" in given:
        given["exp_name"] = (Path(str(given["config_path"][0])).stem, "name of the config")
    try:
        settings = RunLaunchSettings.model_validate({field: value for field, (value, _) in given.items()})
    except ValidationError as error:
        raise_all(_problem_lines(error, given))
        raise
    raise_all(problems(settings))
    origins = {field: origin for field, (_, origin) in given.items()}
    return ResolvedLaunch(settings, origins, [*_near_misses(environ), *_unused(settings, origins)])


def _problem_lines(error: ValidationError, given: Mapping[str, tuple[Any, str]]) -> Iterator[str]:
    for item in error.errors(include_url=False, include_input=False):
        field = str(item["loc"][0])
        yield f"{variable_of(field)} ({given[field][1]}): {item['msg'].removeprefix('Value error, ')}"


def _near_misses(environ: Mapping[str, str]) -> Iterator[str]:
    for name in environ:
        if name in _FIELDS or _OTHERS.match(name):
            continue
        if close := get_close_matches(name, _FIELDS, n=1, cutoff=_NEAR_MISS):
            yield f"{name} of the environment is no variable of a launch; {close[0]} is"


def _unused(settings: RunLaunchSettings, origins: Mapping[str, str]) -> Iterator[str]:
    if settings.trainer == "paddock":
        for field in NEMO_RL_FIELDS:
            if field in origins:
                yield f"{variable_of(field)} ({origins[field]}) has no effect on the built-in loop: it is NeMo-RL's"
