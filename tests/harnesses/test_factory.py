"""Claims about harness plugins: how they are found and made, and who may see the known fix."""

from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel

from paddock.config import implementations
from paddock.errors import ConfigError
from paddock.harness import (
    Exit,
    ModelEndpoint,
    Needs,
    OnStep,
    RunLimits,
    Task,
    Workspace,
    harness_class,
    make_harness,
    needs_of,
)
from paddock.harnesses.gold import GoldHarness
from paddock.harnesses.script import ScriptHarness


class Curious:
    """Would take the fix if it came."""

    KIND: ClassVar[Literal["harnesses"]] = "harnesses"

    def __init__(self, **given: Any) -> None:
        self.given = given

    async def run(
        self, task: Task, workspace: Workspace, endpoint: ModelEndpoint, limits: RunLimits, report: OnStep
    ) -> Exit:
        return Exit(ended="finished", turns=0)


class Greedy(Curious):
    NEEDS: ClassVar[Any] = "everything"


class SettingsHarness(Curious):
    class HarnessConfig(BaseModel):
        size: int

    config_type: ClassVar[type[BaseModel]] = HarnessConfig


HERE = __name__
"""A config can name it, as any module that is there."""


@pytest.mark.parametrize(("name", "needs"), [("gold", "gold"), ("null", "nothing"), ("script", "model")])
def test_a_harness_is_a_folder_and_says_what_it_needs(name: str, needs: Needs) -> None:
    assert name in implementations("harnesses")
    assert needs_of(harness_class(name)) == needs


def test_an_unknown_harness_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="gold"):
        make_harness("golden")


def test_the_known_fix_goes_to_a_class_that_asks_for_it_and_to_no_other() -> None:
    assert isinstance(make_harness("gold", gold=b"fix"), GoldHarness)
    curious = make_harness(f"{HERE}:Curious", gold=b"fix")
    assert isinstance(curious, Curious)
    assert curious.given == {}
    with pytest.raises(ConfigError, match="known fix"):
        make_harness("gold")
    with pytest.raises(ConfigError, match="model, gold, nothing"):
        make_harness(f"{HERE}:Greedy", gold=b"fix")


def test_settings_are_checked_by_the_harness_itself() -> None:
    assert isinstance(make_harness("script", {"commands": ["true"]}), ScriptHarness)
    for spec, block, why in (
        ("script", {"comands": ["true"]}, "comands"),
        ("script", {}, "one of the two"),
        ("null", {"a": 1}, "no settings"),
        (f"{HERE}:SettingsHarness", {}, "size"),
    ):
        with pytest.raises(ConfigError, match=why):
            make_harness(spec, block)
