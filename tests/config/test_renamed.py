"""Claims about keys that have a new name."""

import logging
from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import ConfigDict

from paddock.config import RenamedKeys, validate
from paddock.errors import ConfigError


class ServerBlock(RenamedKeys):
    model_config = ConfigDict(frozen=True, extra="forbid")
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"at_once": "max_concurrency"}

    max_concurrency: int = 1


class WarnedOfOnce(RenamedKeys):
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"name_of_this_test_alone": "max_concurrency"}

    max_concurrency: int = 1


def test_an_old_name_is_read_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in (3, 4):
            assert validate(WarnedOfOnce, {"name_of_this_test_alone": number}, "block").max_concurrency == number
        assert validate(WarnedOfOnce, {"max_concurrency": 5}, "block").max_concurrency == 5
    (message,) = caplog.messages
    assert message.startswith("`name_of_this_test_alone` is called `max_concurrency`")


def test_both_names_and_a_wrong_value_under_the_old_one_are_mistakes() -> None:
    with pytest.raises(ConfigError, match="`at_once` is the old name of `max_concurrency`, and both are given"):
        validate(ServerBlock, {"at_once": 3, "max_concurrency": 4}, "block")
    with pytest.raises(ConfigError, match=r"block\.max_concurrency"):
        validate(ServerBlock, {"at_once": "many"}, "block")
    with pytest.raises(ConfigError, match=r"unknown key `block\.once`"):
        validate(ServerBlock, {"once": 3}, "block")
