"""From all that was said to the settings of one launch, and who said each.

Law     the command line wins over the environment, that over the profile, that over the default. An empty variable is
        as one that is not there. Of another program's variables nothing is read.
Errors  ConfigError with every problem: who said it, the variable, and the nearest right one. A variable of the
        environment that is nearly one of ours is a note: it may be somebody else's.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from paddock.config.problems import raise_all, suggestion
from paddock.training.launch.profiles import Profile
from paddock.training.launch.settings import NEMO_RL_ALONE, VARIABLES, LaunchSettings, named, problems

COMMAND_LINE = "command line"
ENVIRONMENT = "environment"
DEFAULT = "default"
_SLIP = 0.85
"""From this likeness on a variable of the environment is told of."""
_FIELDS = {variable: field for field, variable in VARIABLES.items()}


class Resolved(NamedTuple):
    """One launch."""

    settings: LaunchSettings
    origins: dict[str, str]
    """Of each field that is not its default."""
    notes: list[str]
    """What was said and says nothing."""


def resolve(command: Mapping[str, Any], environ: Mapping[str, str], profile: Profile) -> Resolved:
    """`command`: by variable, or by the name of a field that has none."""
    raise_all(
        f"{COMMAND_LINE}: unknown variable {name}{suggestion(name, _FIELDS)}"
        for name in command
        if name not in _FIELDS and name not in LaunchSettings.model_fields
    )
    given = {
        **profile.given,
        **{field: (environ[name], ENVIRONMENT) for name, field in _FIELDS.items() if environ.get(name)},
        **{_FIELDS.get(name, name): (value, COMMAND_LINE) for name, value in command.items() if value != ""},
    }
    if "exp_name" not in given and "config_path" in given:
        given["exp_name"] = (Path(str(given["config_path"][0])).stem, "name of the config")
    try:
        settings = LaunchSettings.model_validate({field: value for field, (value, _) in given.items()})
    except ValidationError as error:
        raise_all(_wrong(error, given))
        raise
    raise_all(problems(settings))
    origins = {field: origin for field, (_, origin) in given.items()}
    return Resolved(settings, origins, [*_slips(environ), *_idle(settings, origins)])


def _wrong(error: ValidationError, given: Mapping[str, tuple[Any, str]]) -> Iterator[str]:
    for item in error.errors(include_url=False, include_input=False):
        field = str(item["loc"][0])
        yield f"{named(field)} ({given[field][1]}): {item['msg'].removeprefix('Value error, ')}"


def _slips(environ: Mapping[str, str]) -> Iterator[str]:
    for name in environ:
        # SLURM's own, inside a job.
        if name in _FIELDS or name.startswith("SLURM_JOB"):
            continue
        if close := get_close_matches(name, _FIELDS, n=1, cutoff=_SLIP):
            yield f"{name} of the environment is no variable of a launch; {close[0]} is"


def _idle(settings: LaunchSettings, origins: Mapping[str, str]) -> Iterator[str]:
    if settings.trainer == "paddock":
        for field in NEMO_RL_ALONE:
            if field in origins:
                yield f"{named(field)} ({origins[field]}) says nothing to the built-in loop: it is NeMo-RL's"
