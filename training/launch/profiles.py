"""`env.toml`: what of a launch is a site's or a person's, by name.

    [cluster]                      a profile: `--run cluster`
    executor = "slurm"
    account = "science"            any field of `LaunchSettings`, or its variable's name in small letters
    env = ["HF_TOKEN"]             names alone
    [cluster-long]
    extends = "cluster"
    time_limit = "24:0:0"

Found   in the working directory or the nearest one above it. `local` and `slurm` are there without a file.
Law     `[wandb]` gives the project; `[artifacts]`, `[cache]` and `[cli]` are other programs'. Nothing secret is read.
Errors  ConfigError: no such profile, an unknown key (each with the nearest), `extends` in a circle.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.config.problems import raise_all, suggestion
from paddock.errors import ConfigError
from paddock.training.launch.settings import VARIABLES, LaunchSettings

FILE = "env.toml"
OTHERS = ("wandb", "artifacts", "cache", "cli")
"""Sections that are no profiles."""
ALIASES = {
    **{variable.lower(): field for field, variable in VARIABLES.items()},
    "container_image": "container",
    "gpus": "gpus_per_node",
    "mem": "memory",
    "time": "time_limit",
}
"""Other names of fields."""


class Profile(NamedTuple):
    """What it gives, by field: the value, and where it stands."""

    given: dict[str, tuple[Any, str]]


def find_file(folder: Path) -> Path | None:
    """The nearest one."""
    return next((one / FILE for one in (folder, *folder.parents) if (one / FILE).is_file()), None)


def read_profile(name: str | None, file: Path | None) -> Profile:
    """None: `local`."""
    sections = _sections(file)
    wanted = name or "local"
    given: dict[str, tuple[Any, str]] = {}
    project = sections.get("wandb", {}).get("project")
    if isinstance(project, str):
        given["wandb_proj"] = (project, f"{file} [wandb]")
    chain: list[str] = []
    while wanted:
        if wanted in chain:
            raise ConfigError(f"{file}: `extends` goes in a circle: {' -> '.join([*chain, wanted])}", kind="profile")
        _require(wanted, sections, file)
        chain.append(wanted)
        wanted = sections.get(wanted, {}).get("extends", "")
    for one in reversed(chain):
        if one in _BUILT_IN:
            given["executor"] = (one, f"profile {one}")
        given |= _given(sections.get(one, {}), f"{file} [{one}]")
    return Profile(given)


_BUILT_IN = ("local", "slurm")


def _require(name: str, sections: Mapping[str, Any], file: Path | None) -> None:
    if name in _BUILT_IN or (name in sections and name not in OTHERS):
        return
    known = sorted({*_BUILT_IN, *sections} - set(OTHERS))
    where = file if file else f"no {FILE} is here or above"
    raise ConfigError(f"no profile {name!r} ({where}){suggestion(name, known, label='profiles')}", kind="profile")


def _sections(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        tree = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {error}", kind="profile") from None
    raise_all(
        f"{file}: `{key}` stands outside of a [profile]" for key, value in tree.items() if not isinstance(value, dict)
    )
    return tree


def _given(section: Mapping[str, Any], where: str) -> dict[str, tuple[Any, str]]:
    given: dict[str, tuple[Any, str]] = {}
    problems = []
    for key, value in section.items():
        field = ALIASES.get(key, key)
        if key == "extends":
            continue
        if field not in LaunchSettings.model_fields:
            problems.append(f"{where}: unknown key `{key}`{suggestion(key, [*LaunchSettings.model_fields, 'extends'])}")
        elif field in given:
            problems.append(f"{where}: `{key}` and another name of `{field}` are both given")
        else:
            given[field] = (value, where)
    raise_all(problems)
    return given
