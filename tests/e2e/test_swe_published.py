"""Published SWE-bench rows grade as officially, in real sandboxes, on images built from source distributions.

Rows are read where `PADDOCK_TEST_DATA` names a folder that holds them (`swe/*.jsonl`); each says what officially comes
of its fix, of nothing, and of its fix without each hunk. Images stay below `PADDOCK_HOME`, else in /var/tmp.
"""

import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.resources_servers.swe.grading.patches import sections
from paddock.resources_servers.swe.server import SweServer, SweServerConfig
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import build_image
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.types import JsonObject, Row, Verdict, patch_from_text, patch_to_text

HOME = Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")
RESOLVED = {"resolved": 1.0, "unresolved": 0.0}
_HUNK = re.compile(rb"^@@ -(\d+(?:,\d+)?) \+(\d+)(?:,(\d+))? @@(.*)$", re.DOTALL)
_LOCAL = re.compile(rb"^\+\s+([a-z_]\w{2,}) = ", re.MULTILINE)


class PatchHunk(NamedTuple):
    head: bytes
    """Of its file: everything before the first hunk."""
    body: bytes


def _lines(name: str) -> list[JsonObject]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    path = Path(folder or "") / "swe" / name
    return [json.loads(line) for line in path.read_text().splitlines()] if folder and path.exists() else []


INSTANCES = {str(row["instance_id"]): row for row in _lines("instances.jsonl")}
HUNKS = [(name, index) for name, row in INSTANCES.items() for index in range(len(row["paddock"]["without_hunk"]))]
PREDICTIONS = _lines("predictions.jsonl")
QUICK = frozenset({"marshmallow-code__marshmallow-1702"})
"""Instances of which all is tried; all of the others: `make test-slow`."""
FIXED = QUICK | {"django__django-16229", "psf__requests-6028"}
"""Instances of which the fix is tried."""


def slow_param(name: str, *values: Any, quick: frozenset[str] = QUICK) -> Any:
    return pytest.param(*(values or (name,)), marks=[] if name in quick else [pytest.mark.long])


pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not INSTANCES, reason="PADDOCK_TEST_DATA names no folder with published rows (swe/*.jsonl)"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine"),
]


class GraderFixture(NamedTuple):
    server: SweServer
    store: ImageStore

    async def verify(self, source: JsonObject, patch: bytes) -> Verdict:
        row = Row.from_wire({"responses_create_params": {"input": []}, **source})
        task = self.server.read_task(row)
        assert task.instance.build is not None
        await build_image(self.store, task.instance.image, task.instance.build)
        return await self.server.verify(task, row, {"output": [], "model_patch": patch_to_text(patch)})


@pytest.fixture(scope="session")
def home() -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    return HOME


@pytest.fixture
async def fixture(home: Path) -> AsyncIterator[GraderFixture]:
    settings = SandboxSettings(home=home)
    server = SweServer(SweServerConfig(sandbox=settings), name="swe", peers={})
    await server.start()
    yield GraderFixture(server, ImageStore(home, payload_id=settings.payload_id))
    await server.stop()


def counts(verdict: Verdict, key: str) -> list[int]:
    """Tests of a list that officially passed and did not, by their status."""
    good = ("PASSED", "XFAIL") if key == "FAIL_TO_PASS" else ("PASSED", "XFAIL", "SKIPPED")
    statuses = list(verdict.extras["tests"][key].values())
    passed = sum(status in good for status in statuses)
    return [passed, len(statuses) - passed]


@pytest.mark.parametrize("name", [slow_param(name, quick=FIXED) for name in INSTANCES])
async def test_the_fix_is_resolved_and_nothing_is_not(fixture: GraderFixture, name: str) -> None:
    row = INSTANCES[name]
    gold = await fixture.verify(row, patch_from_text(row["patch"]))
    assert (gold.reward, gold.reason) == (1.0, "resolved"), gold
    assert "official" not in gold.extras
    verdict, tests = row["paddock"]["validated"]["gold"]
    assert (verdict, {key: sum(counts(gold, key)) for key in tests}) == (
        "resolved",
        {key: sum(value) for key, value in tests.items()},
    )
    nothing = await fixture.verify(row, b"")
    assert (nothing.reward, nothing.reason) == (0.0, "no_patch")


@pytest.mark.long
@pytest.mark.parametrize("name", [slow_param(name) for name in INSTANCES])
async def test_an_unrelated_change_is_unresolved_with_the_tests_of_no_patch(fixture: GraderFixture, name: str) -> None:
    row = INSTANCES[name]
    note = b"diff --git a/NOTE b/NOTE\nnew file mode 100644\n--- /dev/null\n+++ b/NOTE\n@@ -0,0 +1 @@\n+nothing\n"
    verdict = await fixture.verify(row, note)
    assert (verdict.reward, verdict.reason) == (0.0, "tests_fail")
    official, tests = row["paddock"]["validated"]["null"]
    assert (official, counts(verdict, "FAIL_TO_PASS")) == ("unresolved", tests["FAIL_TO_PASS"])


@pytest.mark.long
@pytest.mark.parametrize("name", [slow_param(name) for name in INSTANCES])
async def test_an_equivalent_rewrite_of_the_fix_is_resolved(fixture: GraderFixture, name: str) -> None:
    gold = patch_from_text(INSTANCES[name]["patch"])
    rewritten = rewrite(gold)
    assert rewritten != gold
    verdict = await fixture.verify(INSTANCES[name], rewritten)
    assert (verdict.reward, verdict.reason) == (1.0, "resolved"), verdict


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "index"),
    [slow_param(name, name, index, quick=frozenset() if index else QUICK) for name, index in HUNKS],
)
async def test_the_fix_without_a_hunk_is_as_published(fixture: GraderFixture, name: str, index: int) -> None:
    row = INSTANCES[name]
    verdict = await fixture.verify(row, without(patch_from_text(row["patch"]), index))
    assert verdict.reward == RESOLVED[row["paddock"]["without_hunk"][index]], verdict
    assert "official" not in verdict.extras


@pytest.mark.parametrize(
    "prediction",
    [slow_param(str(prediction["instance_id"]), prediction) for prediction in PREDICTIONS],
    ids=[str(prediction["instance_id"]) for prediction in PREDICTIONS],
)
async def test_a_stored_prediction_gets_its_stored_verdict(fixture: GraderFixture, prediction: JsonObject) -> None:
    verdict = await fixture.verify(
        INSTANCES[str(prediction["instance_id"])], patch_from_text(prediction["model_patch"])
    )
    assert verdict.reward == float(prediction["resolved"])
    assert {key: counts(verdict, key) for key in prediction["tests"]} == prediction["tests"]
    assert "official" not in verdict.extras


@pytest.mark.parametrize("name", INSTANCES)
async def test_a_session_shows_nothing_of_the_answer(fixture: GraderFixture, name: str) -> None:
    row = Row.from_wire({"responses_create_params": {"input": []}, **INSTANCES[name]})
    shown = (await fixture.server.seed_session(fixture.server.read_task(row), row)).model_dump_json()
    source: dict[str, Any] = INSTANCES[name]
    for key in ("patch", "test_patch", "eval_script", "hints_text"):
        hidden = [line for line in str(source.get(key) or "").splitlines() if len(line) > 40 and line[:1] in "+-"]
        assert not [
            line for line in hidden if line[1:].strip() in shown and line[1:].strip() not in source["problem_statement"]
        ]


def hunks(patch: bytes) -> list[PatchHunk]:
    found: list[PatchHunk] = []
    for section in sections(patch):
        head, *bodies = re.split(rb"(?m)^(?=@@ )", section.body)
        found += [PatchHunk(head, body) for body in bodies]
    return found


def together(parts: list[PatchHunk]) -> bytes:
    heads = list(dict.fromkeys(part.head for part in parts))
    return b"".join(head + b"".join(part.body for part in parts if part.head == head) for head in heads)


def without(patch: bytes, index: int) -> bytes:
    parts = hunks(patch)
    return together(parts[:index] + parts[index + 1 :])


def rewrite(patch: bytes) -> bytes:
    """The same fix in other bytes: a new local name changed where there is one, else a comment in each hunk."""
    for name in _LOCAL.findall(patch):
        word = re.compile(rb"(?<![\w.])%s(?!\w)" % name)
        others = [line for line in patch.split(b"\n") if not line.startswith(b"+") and word.search(line)]
        if not others and not re.search(rb"[.(, ]%s\s*=[^=]" % name, _LOCAL.sub(b"", patch)):
            return b"\n".join(
                word.sub(name + b"_too", line) if line.startswith(b"+") and not line.startswith(b"+++") else line
                for line in patch.split(b"\n")
            )
    return together([PatchHunk(part.head, _comment(part.body)) for part in hunks(patch)])


def _comment(body: bytes) -> bytes:
    """A hunk with a comment before its first changed line."""
    first, *lines = body.split(b"\n")
    matched = _HUNK.match(first)
    assert matched is not None
    old, start, count, rest = matched.groups()
    at = next(index for index, line in enumerate(lines) if line[:1] in (b"+", b"-"))
    indent = re.match(rb"[+-](\s*)", lines[at])
    assert indent is not None
    lines.insert(at, b"+%s# The same, said otherwise." % indent[1])
    return b"@@ -%s +%s,%d @@%s\n" % (old, start, int(count or 1) + 1, rest) + b"\n".join(lines)
