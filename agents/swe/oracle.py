"""What an environment knows to be right, as turns of the harness that works on a row: `--oracle`.

Turns   a harness that has `oracle` (`paddock.harness.OracleHarness`) plays the environment's `fix` with its own tools,
        by the names that this row's policy is shown. One that is given the fix itself gets it as the one message that
        `gold` may ask for; one that needs nothing gets no turn.
Law     made in the collector's process. Of the fix nothing but these turns leaves it: no server is told, and a harness
        that is played sees what any policy's does.
Errors  ConfigError for a harness that can't be played; RowError for a fix that an editor of text can't make.
"""

from collections.abc import Iterable
from typing import Any, cast

from paddock.agents.swe.variants import Variant
from paddock.errors import ConfigError, RowError
from paddock.harness import harness_class, make_harness
from paddock.harness.contract import OracleHarness
from paddock.server import ResourcesServer
from paddock.types import JsonObject, Row
from paddock.types.responses import item_type

CALLS = ("function_call", "custom_tool_call")


def check(variants: Iterable[Variant], environment: ResourcesServer[Any, Any]) -> None:
    """Raise ConfigError where one of the variants can't be played."""
    for variant in variants:
        if variant.needs == "nothing" or (variant.needs == "gold" and environment.ROWS_HAVE_FIX):
            continue
        method = "oracle" if variant.needs == "gold" else "fix"
        if variant.needs == "model" and not hasattr(harness_class(variant.harness), "oracle"):
            raise ConfigError(
                f"--oracle: the harness {variant.harness} knows no way to play a known fix: its class has no `oracle`; "
                "take a harness that has one, or `gold`, which applies the fix itself",
                kind="no_oracle",
            )
        if getattr(type(environment), method) is getattr(ResourcesServer, method):
            raise ConfigError(
                f"--oracle: {environment.name} ({type(environment).__name__}) knows nothing that the harness "
                f"{variant.harness} could play: it has no `{method}`",
                kind="no_oracle",
            )


async def oracle_turns(variant: Variant, environment: ResourcesServer[Any, Any], row: Row) -> list[list[JsonObject]]:
    """Return the turns that play the known fix of one row."""
    task = environment.read_task(row)
    if variant.needs == "nothing" or (variant.needs == "gold" and environment.ROWS_HAVE_FIX):
        return []
    if variant.needs == "gold":
        return [list(turn) for turn in environment.oracle(task, row)]
    harness = make_harness(variant.harness, variant.harness_config)
    fix = await environment.fix(task, row)
    try:
        turns = cast("OracleHarness", harness).oracle(fix)
    except ValueError as error:
        raise RowError(
            f"{variant.harness} can't make the known fix with its tools: {error}", kind="fix_unplayable"
        ) from error
    return [[_as_shown(item, variant.tool_names) for item in turn] for turn in turns]


def _as_shown(item: JsonObject, names: dict[str, str]) -> JsonObject:
    """Rename a call's tool to the name that the policy is shown."""
    name = item.get("name")
    if item_type(item) not in CALLS or not isinstance(name, str) or names.get(name, name) == name:
        return item
    return {**item, "name": names[name]}
