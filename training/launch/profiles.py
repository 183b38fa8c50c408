"""Profiles of `env.toml`: settings of a launch that belong to a site or a person, by name.

    [cluster]                      a profile: `--run cluster`
    executor = "slurm"
    account = "science"            any field of `RunLaunchSettings`, or its variable's name in small letters
    env = ["HF_TOKEN"]             names alone
    [cluster-long]
    extends = "cluster"
    time_limit = "24:0:0"

Found   in the working directory or the nearest one above it. `local`, `slurm` and `kuberay` are
        there without a file.
Law     `[wandb]` gives the project; `[artifacts]`, `[cache]` and `[cli]` are other programs'. Nothing secret is read.
Errors  ConfigError: no such profile, an unknown key (each with the nearest), `extends` in a circle.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.config.problems import raise_all, suggestion
from paddock.errors import ConfigError
from paddock.training.launch.settings import VARIABLES, RunLaunchSettings

FILE = "env.toml"
FOREIGN_SECTIONS = ("wandb", "artifacts", "cache", "cli")
"""Sections of other programs, which are no profiles."""
ALIASES = {
    **{variable.lower(): field for field, variable in VARIABLES.items()},
    "container_image": "container",
    "gpus": "gpus_per_node",
    "mem": "memory",
    "time": "time_limit",
}
"""Other names of fields, by that name."""


class LaunchProfile(NamedTuple):
    """The settings that a profile gives, by field: the value, and where it stands."""

    given: dict[str, tuple[Any, str]]


def find_file(folder: Path) -> Path | None:
    """The file in the folder or the nearest one above it; None: there is none."""
    return next((parent / FILE for parent in (folder, *folder.parents) if (parent / FILE).is_file()), None)


def read_profile(name: str | None, file: Path | None) -> LaunchProfile:
    """The profile of that name; None: `local`. ConfigError for an unknown profile or key."""
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
    for section in reversed(chain):
        if section in _BUILT_IN:
            given["executor"] = (section, f"profile {section}")
        given |= _given(sections.get(section, {}), f"{file} [{section}]")
    return LaunchProfile(given)


_BUILT_IN = ("local", "slurm", "kuberay")


def _require(name: str, sections: Mapping[str, Any], file: Path | None) -> None:
    if name in _BUILT_IN or (name in sections and name not in FOREIGN_SECTIONS):
        return
    names = sorted({*_BUILT_IN, *sections} - set(FOREIGN_SECTIONS))
    where = file if file else f"no {FILE} is here or above"
    raise ConfigError(f"no profile {name!r} ({where}){suggestion(name, names, label='profiles')}", kind="profile")


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
        if field not in RunLaunchSettings.model_fields:
            problems.append(
                f"{where}: unknown key `{key}`{suggestion(key, [*RunLaunchSettings.model_fields, 'extends'])}"
            )
        elif field in given:
            problems.append(f"{where}: `{key}` and another name of `{field}` are both given")
        else:
            given[field] = (value, where)
    raise_all(problems)
    return given
