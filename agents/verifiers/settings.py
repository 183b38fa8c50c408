"""What an agent's block says, in verifiers' own form: the config of an environment, checked.

Runs under the interpreter that has verifiers.
Law     nothing is pushed or logged in for: the seats' runtimes are local unless the block says otherwise, and only
        verifiers' command pushes. Retries are the collector's: one of verifiers' own would put two attempts in one
        rollout.
Errors  SettingsError says what is wrong with the block; else what verifiers raises.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from verifiers.v1 import AgentConfig, EnvConfig
from verifiers.v1.runtimes import PrimeConfig, SubprocessConfig
from verifiers.v1.utils.loaders import (
    default_harness_id,
    env_config_type,
    harness_class,
    resolve_env_config,
)

MODEL_KEY, OTHERS_KEY = "PADDOCK_MODEL_API_KEY", "PADDOCK_OTHERS_API_KEY"
"""Variables of the keys; verifiers hands no variable with such a name to a harness."""


class SettingsError(ValueError):
    """The block can't be used."""


class Seats(NamedTuple):
    """An environment's config, and the seat that the model plays."""

    config: EnvConfig
    seat: str
    has_others: bool


def read_settings(settings: Mapping[str, Any], others_url: str | None = None) -> Seats:
    """The config of the block; `others_url`: the endpoint of seats that are not the model's and name none."""
    taskset = settings["environment"]
    env = {**settings["env"], "taskset": {**(settings["env"].get("taskset") or {}), "id": taskset}}
    fields = env_config_type(taskset, env.get("id") or "").model_fields
    defaults = {name: field.default for name, field in fields.items() if isinstance(field.default, AgentConfig)}
    seat = _seat(settings["seat"], list(defaults))
    for name, default in defaults.items():
        env[name] = _seated(env.get(name) or {}, default, taskset)
        if name != seat and others_url is not None and default.client is None and "client" not in env[name]:
            env[name]["client"] = {"type": "eval", "base_url": others_url, "api_key_var": OTHERS_KEY}
    config = resolve_env_config(env)
    _check(config, list(defaults), taskset, host_commands=settings["host_commands"])
    return Seats(config, seat, len(defaults) > 1)


def _seat(wanted: str | None, seats: list[str]) -> str:
    if wanted is None and len(seats) != 1:
        raise SettingsError(f"seat: the environment has several, so name the model's: {', '.join(seats)}")
    if wanted is not None and wanted not in seats:
        raise SettingsError(f"seat: the environment has no {wanted!r}; it has: {', '.join(seats)}")
    return wanted or seats[0]


def _seated(given: Mapping[str, Any], default: AgentConfig, taskset: str) -> dict[str, Any]:
    seat = dict(given)
    if "runtime" not in seat and isinstance(default.runtime, PrimeConfig):
        seat["runtime"] = {"type": "subprocess"}
    if "harness" not in seat and default.harness is None and default_harness_id(taskset) == "bash":
        seat["harness"] = {"id": "null"}
    return seat


def _check(config: EnvConfig, seats: list[str], taskset: str, *, host_commands: bool) -> None:
    retries = {"env": config.retries, **{f"env.{name}": getattr(config, name).retries for name in seats}}
    for where, retry in retries.items():
        if retry.max_retries or any(rule.max_retries for rule in retry.rules):
            raise SettingsError(f"{where}.retries: rollouts are tried again by `eval.max_attempts`, not by verifiers")
    for name in seats:
        seat = getattr(config, name)
        harness = harness_class(seat.harness.id if seat.harness else default_harness_id(taskset))
        if harness.EXECUTES_CODE and isinstance(seat.runtime, SubprocessConfig) and not host_commands:
            raise SettingsError(
                f"env.{name}: the harness {harness.__name__} runs the model's commands, here on this machine itself; "
                "name a runtime that is a container, such as `runtime: {type: docker}`, or say `host_commands: true`"
            )
