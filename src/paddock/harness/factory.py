"""Makes the harness of one rollout from its name in a config.

Law     only a class that says `NEEDS = "gold"` is given the row's known fix, and such a class is given no model: so no
        policy can come by it.
Errors  ConfigError: an unknown harness, settings that it does not have.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

from pydantic import BaseModel

from paddock.config import resolve_class, validate
from paddock.errors import ConfigError
from paddock.harness.contract import Gold, Harness, Needs
from paddock.harness.programs.installation import InstalledProgram
from paddock.types import JsonObject

KIND = "harnesses"


def harness_class(spec: str) -> type[Any]:
    """Return the class that a config names. Raises ConfigError."""
    cls = resolve_class(spec, KIND)
    needs_of(cls)
    return cls


def needs_of(cls: type[Any]) -> Needs:
    """Return the class's `NEEDS`; by default a model. Raises ConfigError for a value that is none."""
    needs = getattr(cls, "NEEDS", "model")
    if needs not in get_args(Needs):
        raise ConfigError(
            f"{cls.__name__}.NEEDS: {needs!r} is none of {', '.join(get_args(Needs))}", kind="harness_invalid"
        )
    return cast("Needs", needs)


def check_settings(cls: type[Any], block: Mapping[str, Any], where: str) -> BaseModel | None:
    """Validate a harness's settings; None: the class has none. Raises ConfigError."""
    model: type[BaseModel] | None = getattr(cls, "config_type", None)
    if model is not None:
        return validate(model, dict(block), where)
    if block:
        raise ConfigError(f"{where}: {cls.__name__} has no settings, got {', '.join(block)}", kind="unknown_key")
    return None


def make_harness(
    spec: str,
    block: JsonObject | None = None,
    *,
    gold: Gold | None = None,
    program: InstalledProgram | None = None,
) -> Harness:
    """Make a harness. `gold`: the known fix, for a class that needs it. `program`: the installed program, for one
    that runs outside of the sandbox; None: it is not run. Raises ConfigError."""
    cls = harness_class(spec)
    settings = check_settings(cls, block or {}, f"harness {spec}")
    arguments = () if settings is None else (settings,)
    if needs_of(cls) != "gold":
        keywords = {} if program is None else {"program": program}
        return cast("Harness", cls(*arguments, **keywords))
    if gold is None:
        raise ConfigError(f"harness {spec} needs the row's known fix, and there is none", kind="no_gold")
    return cast("Harness", cls(*arguments, gold=gold))
