"""From a name in a config to a harness of one rollout.

Law     only a class that says `NEEDS = "gold"` is given the row's known fix, and such a class is given no model: so no
        policy can come by it.
Errors  ConfigError: an unknown harness, settings that it does not have.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

from pydantic import BaseModel

from paddock.config import resolve_class, validate
from paddock.errors import ConfigError
from paddock.harness.contract import Harness, Needs
from paddock.harness.programs.installation import InstalledProgram
from paddock.types import JsonObject

KIND = "harnesses"


def harness_class(spec: str) -> type[Any]:
    """The class that a config names."""
    cls = resolve_class(spec, KIND)
    needs_of(cls)
    return cls


def needs_of(cls: type[Any]) -> Needs:
    """What it says that it needs; a model where it says nothing."""
    needs = getattr(cls, "NEEDS", "model")
    if needs not in get_args(Needs):
        raise ConfigError(
            f"{cls.__name__}.NEEDS: {needs!r} is none of {', '.join(get_args(Needs))}", kind="harness_invalid"
        )
    return cast("Needs", needs)


def check_settings(cls: type[Any], block: Mapping[str, Any], where: str) -> BaseModel | None:
    """Its settings, typed; None: it has none."""
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
    gold_patch: bytes | None = None,
    program: InstalledProgram | None = None,
) -> Harness:
    """A new one. `gold_patch` goes to a class that needs it, and to no other. `program`: where that of a class is which
    runs one outside of the sandbox; None: it is not going to run."""
    cls = harness_class(spec)
    settings = check_settings(cls, block or {}, f"harness {spec}")
    arguments = () if settings is None else (settings,)
    if needs_of(cls) != "gold":
        located = {} if program is None else {"program": program}
        return cast("Harness", cls(*arguments, **located))
    if gold_patch is None:
        raise ConfigError(f"harness {spec} needs the row's known fix, and there is none", kind="no_gold")
    return cast("Harness", cls(*arguments, gold_patch=gold_patch))
