"""Claims about the SWE server: what it shows, what it takes, what its verdicts say; over all transports."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paddock.errors import RequestError, RowError
from paddock.http import SEED, VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.swe import SweServer
from paddock.resources_servers.swe.grading import REASONS, Grade, Reason
from paddock.resources_servers.swe.grading.guard import DroppedPart
from paddock.resources_servers.swe.grading.run_results import GradingRun, read_run
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.server import SweServerConfig, read_patch, verdict
from paddock.sandbox.images import ImageStore
from paddock.testing import TRANSPORTS, Transport, over
from paddock.types import JsonObject, Row
from paddock.types.responses import message_item

GOLD = (
    "diff --git a/shapes/__init__.py b/shapes/__init__.py\n--- a/shapes/__init__.py\n+++ b/shapes/__init__.py\n"
    "@@ -1,2 +1,2 @@\n def area(width, height):\n-    return width + height\n+    return width * height\n"
)
TEST = "import shapes\n\n\ndef test_secret(sides):\n    assert shapes.area(*sides) == 6\n"


def own(**fields: Any) -> Row:
    task = {
        "instance_id": "shapes__area-1",
        "problem_statement": "area(2, 3) is 5.",
        "image": "shapes__area-1",
        "patch": GOLD,
        "test_files": {"tests/test_secret.py": TEST},
        "test_command": "pytest -rA tests/test_secret.py",
        "FAIL_TO_PASS": ["tests/test_secret.py::test_secret"],
        "PASS_TO_PASS": [],
    }
    return read_row({"responses_create_params": {"input": []}, **task, **fields})


@pytest.mark.sandbox
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_patch_of_the_response_is_graded(transport: Transport, images: ImageStore, shapes: JsonObject) -> None:
    config = SweServerConfig.model_validate({"sandbox": {"home": images.home}, "keep_log": True})
    responses: list[JsonObject] = [{"model_patch": GOLD}, {"model_patch": ""}, {"output": []}]
    async with over(transport, SweServer(config, name="swe", peers={})) as peers:
        replies = [
            await peers["swe"].call(VERIFY, VerifyRequest(row=own(), response=response), Call())
            for response in responses
        ]
    assert [(one.reward, one.reason) for one in replies] == [(1.0, "resolved"), (0.0, "no_patch"), (0.0, "no_patch")]
    assert replies[0].extras["tests"]["FAIL_TO_PASS"] == {"tests/test_secret.py::test_secret": "PASSED"}
    assert "1 passed" not in json.dumps(replies[1].extras)
    assert "PASSED tests/test_secret.py::test_secret" in str(replies[0].extras["log"])


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_verdict_says_how_long_it_waited_for_its_turn(images: ImageStore, shapes: JsonObject) -> None:
    config = SweServerConfig.model_validate({"sandbox": {"home": images.home}, "max_concurrent_gradings": 1})
    async with over("direct", SweServer(config, name="swe", peers={})) as peers:
        asked = (
            peers["swe"].call(VERIFY, VerifyRequest(row=own(), response={"model_patch": GOLD}), Call())
            for _ in range(2)
        )
        shorter, longer = sorted(one.waited_s for one in await asyncio.gather(*asked))
    assert shorter < longer


@pytest.mark.sandbox
async def test_a_session_shows_the_allow_list_and_where_to_work(images: ImageStore, shapes: JsonObject) -> None:
    config = SweServerConfig.model_validate({"sandbox": {"home": images.home}})
    async with over("direct", SweServer(config, name="swe", peers={})) as peers:
        session = await peers["swe"].call(SEED, own(), Call())
        with pytest.raises(RowError, match="test_files"):
            await peers["swe"].call(SEED, own(test_files=None), Call())
    assert session.image is not None
    assert (session.image.split("#")[0], session.workdir) == ("shapes__area-1", "/testbed")
    assert set(session.visible) == {"instance_id", "problem_statement", "repo", "language", "workdir", "network"}
    for hidden in ("test_secret", "width", "pytest"):
        assert hidden not in session.model_dump_json()


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(("operator", "told"), [("*", True), ("+", False)], ids=["newer", "older"])
async def test_an_installed_copy_that_has_the_fix_refuses_the_image_and_an_older_one_does_not(
    images: ImageStore, shapes: JsonObject, operator: str, told: bool
) -> None:
    def install(tree: Path) -> None:
        package = tree / "usr/lib/python3/dist-packages/shapes"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"def area(width, height):\n    return width {operator} height\n")
        images.own([tree, *tree.rglob("*")])

    name = f"shapes__installed-{told:d}"
    images.add(name, install, base="shapes__area-1")
    config = SweServerConfig.model_validate({"sandbox": {"home": images.home}})
    async with over("direct", SweServer(config, name="swe", peers={})) as peers:
        if told:
            with pytest.raises(
                RowError, match="installed copy of the project has the fix: /usr/lib/python3"
            ) as refusal:
                await peers["swe"].call(SEED, own(image=name), Call())
            assert refusal.value.kind == "image_leaks"
        else:
            assert (await peers["swe"].call(SEED, own(image=name), Call())).image
    images.remove(name)


@pytest.mark.parametrize(
    ("response", "patch"),
    [
        ({}, b""),
        ({"model_patch": None}, b""),
        ({"model_patch": "a\r\n"}, b"a\r\n"),
        ({"model_patch": "base64:/w=="}, b"\xff"),
        ({"output": [message_item("I looked."), message_item(GOLD)]}, GOLD.encode()),
        ({"output": [message_item(GOLD)], "model_patch": None}, b""),
        ({"output": [message_item("base64:###")]}, b""),
        ({"output": [message_item("diff --git \ud800")]}, b"diff --git \xed\xa0\x80"),
        ({"output": [message_item(GOLD), message_item("Done.")]}, b""),
        ({"output": [message_item(f"Here: {GOLD}")]}, b""),
    ],
)
def test_the_patch_is_the_responses_model_patch(response: JsonObject, patch: bytes) -> None:
    assert read_patch(response) == patch


@pytest.mark.parametrize("given", [3, ["diff"], "base64:###"])
def test_a_model_patch_that_is_none_is_the_callers_fault(given: object) -> None:
    with pytest.raises(RequestError, match="model_patch"):
        read_patch({"model_patch": given})


def test_a_verdict_says_what_was_dropped_and_where_the_official_one_differs(make: Callable[..., SweInstance]) -> None:
    run = GradingRun("FAILED tests/test_a.py::test_new\nPASSED tests/test_a.py::test_old\n", 1)
    results = read_run(make(), run)
    dropped = (DroppedPart("conftest.py", "runs before tests"),)
    grade = Grade("tests_fail", results.detail, results, run, dropped, "RESOLVED_FULL")
    told = verdict(grade, GOLD.encode(), SweServerConfig())
    assert (told.reward, told.metrics["resolved"], told.metrics["patch_dropped_files"]) == (0.0, 0.0, 1.0)
    assert told.extras["tests"] == {
        "FAIL_TO_PASS": {"tests/test_a.py::test_new": "FAILED"},
        "PASS_TO_PASS": {"tests/test_a.py::test_old": "PASSED"},
    }
    assert told.extras["official"] == {"resolved": True, "status": "RESOLVED_FULL"}
    assert told.extras["patch_dropped"] == [{"path": "conftest.py", "reason": "runs before tests"}]
    assert (told.detail or "").endswith("; not applied, the reference's or a test: conftest.py (runs before tests)")
    assert "log" not in told.extras


@pytest.mark.parametrize("reason", REASONS)
def test_a_verdict_is_counted_by_its_reason_and_its_repository(reason: Reason) -> None:
    told = verdict(Grade(reason, ""), b"", SweServerConfig(), repo="a/b")
    flags = {
        "resolved": "resolved",
        "no_patch": "no_patch",
        "patch_does_not_apply": "patch_not_applied",
        "tests_forged": "tests_forged",
    }
    assert [name for name in flags.values() if told.metrics[name]] == ([flags[reason]] if reason in flags else [])
    assert told.labels == {"repo": "a/b"}
    assert verdict(Grade(reason, ""), b"", SweServerConfig()).labels == {}


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("forgery_reward", [-1.0, -0.25, 0.0])
def test_forged_results_are_rewarded_as_the_config_says_and_nothing_else_is(
    reason: Reason, forgery_reward: float
) -> None:
    told = verdict(Grade(reason, ""), b"", SweServerConfig(forgery_reward=forgery_reward))
    assert told.reward == {"resolved": 1.0, "tests_forged": forgery_reward}.get(reason, 0.0)
    assert verdict(Grade("tests_forged", ""), b"", SweServerConfig()).reward == -1.0


@pytest.mark.parametrize("given", [0.1, 1.0, float("-inf"), float("nan")])
def test_forging_can_not_be_paid_by_the_config(given: float) -> None:
    with pytest.raises(ValidationError, match="forgery_reward"):
        SweServerConfig(forgery_reward=given)


def test_the_last_output_of_forged_tests_is_kept_whatever_the_config_says_of_logs(
    make: Callable[..., SweInstance],
) -> None:
    run = GradingRun("first\n" + "x" * 100_000 + "\nPASSED tests/test_a.py::test_new\n", 0)
    results = read_run(make(), run)
    bent = Grade("tests_forged", "it passes whatever it says", results, run)
    log = str(verdict(bent, b"", SweServerConfig()).extras["log"])
    assert log.endswith("x\nPASSED tests/test_a.py::test_new\n")
    assert len(log) == 1 << 16
    assert verdict(bent, b"", SweServerConfig(keep_log=True)).extras["log"] == run.output
    assert "log" not in verdict(bent._replace(reason="tests_fail"), b"", SweServerConfig()).extras


def test_the_oracle_is_the_fix() -> None:
    server = SweServer(SweServerConfig(), name="swe", peers={})
    row = own()
    assert server.oracle(server.read_task(row), row)[0][0]["content"][0]["text"] == GOLD
