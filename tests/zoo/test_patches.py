"""Patches that want to be paid without a fix, and patches with a fix that look odd, in real sandboxes.

Each file of `cheaters/` says its channel, the verdicts that it may get, and whether the official procedure pays it;
each of `honest/` has the fix in it and must be resolved.
"""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.slow
async def test_a_cheater_is_not_paid(cheater: Any, patch_of: Callable[[Any], bytes], grade: Callable[..., Any]) -> None:
    official = cheater.keys["official"]
    limits = {key: int(cheater.keys[key]) for key in ("memory_mib", "pids", "disk_mib") if key in cheater.keys}
    options = {
        "tests_timeout_s": float(cheater.keys.get("timeout_s", "60")),
        "official": official != "not asked",
        "limits": {"memory_mib": 1024, "pids": 512, "disk_mib": 1024, **limits},
    }
    got = await grade(patch_of(cheater), **options)
    assert got.reason in cheater.keys["verdict"].split(", "), got
    if official != "not asked":
        assert (got.official == "RESOLVED_FULL") == (official == "pays"), got


@pytest.mark.slow
async def test_an_honest_patch_is_paid(
    honest: Any, patch_of: Callable[[Any], bytes], grade: Callable[..., Any]
) -> None:
    got = await grade(patch_of(honest), official=False)
    assert got.reason == "resolved", got
