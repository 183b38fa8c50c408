"""Claims about the view's answers: who gets them, what they hold, and that nothing else is written or read."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from paddock.http import rollout_from_wire
from paddock.server.access import make_access
from paddock.server.sockets import Address, bind
from paddock.viewer.web import Catalog, serve_view
from paddock.viewer.web.rollout_page import rollout_page

LONG = 30_000


@pytest.fixture
def run(seen_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(seen_run, tmp_path / "runs" / "seen"))


@pytest.fixture
async def client(run: Path) -> AsyncIterator[httpx.AsyncClient]:
    access = make_access(None, make=True)
    async with serve_view(Catalog([run.parent]), bind("view", Address("127.0.0.1", 0)), access=access) as url:
        base, _, token = url.partition("/#token=")
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=base, headers=headers, params={"run": "runs/seen"}) as client:
            yield client


def copy_of_1970(run: Path, to: Path) -> None:
    shutil.copytree(run, to)
    for file in (*to.iterdir(), to):
        os.utime(file, (0, 0))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def ask(client: httpx.AsyncClient, name: str, **query: Any) -> Any:
    reply = await client.get(f"/api/{name}", params={"run": "runs/seen", **query})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize(
    "name", ["runs", "counts", "report", "rows", "rollout", "text", "tokens", "search", "metrics", "notes"]
)
async def test_nothing_of_a_run_is_given_without_the_token(client: httpx.AsyncClient, name: str) -> None:
    del client.headers["authorization"]
    assert (await client.get(f"/api/{name}")).status_code == 401
    assert (await client.post("/api/notes", json={})).status_code == 401
    assert (await client.get("/metrics")).status_code == 401


async def test_a_page_of_another_site_gets_nothing(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/runs", headers={"origin": "http://evil.example"})).status_code == 403
    assert (await client.get("/", headers={"host": "evil.example"})).status_code == 403


async def test_every_answer_has_the_policy(client: httpx.AsyncClient) -> None:
    for path in ("/", "/assets/app.js", "/api/runs", "/api/nothing", "/assets/../app.py"):
        policy = (await client.get(path)).headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/assets/..%2fapp.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd"])
async def test_assets_are_all_that_is_served_of_files(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("wanted", ["../../etc", "/etc", "runs/seen/..", "runs", ""])
async def test_a_run_is_one_of_the_list(client: httpx.AsyncClient, wanted: str) -> None:
    reply = await client.get("/api/rows", params={"run": wanted})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (400, "no_run")


async def test_a_rollout_has_its_turns_patch_and_tests(client: httpx.AsyncClient) -> None:
    page = await ask(client, "rollout", group=0, member=0)
    kinds = [[item["kind"] for item in turn] for turn in page["turns"]]
    assert kinds[0] == ["reasoning", "text", "call", "result", "call", "result"]
    assert page["patch"]["text"].startswith("diff --git")
    assert page["tests"]["FAIL_TO_PASS"] == {"count": 1, "shown": [["test_calc.py::test_add", "PASSED"]]}
    assert ["reason", "resolved", "plain"] in page["facts"]
    assert len(page["calls"]) == 3


async def test_a_call_shows_what_it_was_answered(client: httpx.AsyncClient) -> None:
    page = await ask(client, "rollout", group=0, member=0)
    call = await ask(client, "tokens", group=0, member=0, call=1)
    shown = [(item["kind"], item["title"], item["text"]) for item in call["items"]]
    assert shown == [
        (item["kind"], item["title"], item["text"]) for item in page["turns"][1] if item["kind"] != "result"
    ]
    first = call["items"][0]
    assert (await ask(client, "text", group=0, member=0, part=first["part"]))["text"] == first["text"]


def test_calls_are_a_tree(run: Path) -> None:
    """A branch, of which one more, beside the line that goes on, and a call that begins anew, as a sub-agent's does."""
    rollout = rollout_from_wire(orjson.loads((run / "rollouts.jsonl").read_bytes().splitlines()[0]))
    parents = [None, "0", "1", "1", "3", "3", None, "6", "2"]
    turns = [
        rollout.turns[0].model_copy(update={"id": str(i), "parent": parent, "prompt_ids": [1], "sampled_ids": [2]})
        for i, parent in enumerate(parents)
    ]
    calls = rollout_page(rollout.model_copy(update={"turns": turns}))["calls"]
    assert [call["parent"] for call in calls] == [None, 0, 1, 1, 3, 3, None, 6, 2]
    assert [call["depth"] for call in calls] == [0, 0, 0, 1, 1, 2, 1, 1, 0]
    without_ids = [turn.model_copy(update={"parent": None, "prompt_ids": None}) for turn in turns]
    calls = rollout_page(rollout.model_copy(update={"turns": without_ids}))["calls"]
    assert {call["depth"] for call in calls} == {0}, "an engine without ids says nothing of branches"


async def test_an_edit_is_a_diff_and_each_changed_file_has_its_turns(client: httpx.AsyncClient) -> None:
    page = await ask(client, "rollout", group=0, member=0)
    edit = page["turns"][1][2]
    assert edit["change"]["text"] == "--- /testbed/calc.py\n+++ /testbed/calc.py\n@@\n-a - b\n+a + b"
    assert (await ask(client, "text", group=0, member=0, part=edit["change"]["part"]))["text"] == edit["change"]["text"]
    assert edit["text"].startswith("command: str_replace")
    assert page["files"] == [{"path": "/testbed/calc.py", "turns": [2], "in_patch": True}]


async def test_a_report_is_given_once_and_then_when_it_was_written(client: httpx.AsyncClient, run: Path) -> None:
    file = run.parent / "rows.report.jsonl"
    file.write_text('{"digest":"1","line":1,"instance_id":"<b>one</b>","ended":"accepted"}\n')
    listed = {one["id"]: one["page"] for one in (await ask(client, "runs"))["runs"]}
    assert listed == {"runs/seen": "run", "runs/rows.report.jsonl": "report"}
    report = await ask(client, "report", run="runs/rows.report.jsonl")
    assert report["verdict"] == {"label": "rows", "text": "1 of 1 rows accepted", "tone": "good"}
    assert report["blocks"][-1]["rows"][0][1] == ["<b>one</b>", "plain"]
    seen = report["changed_at"]
    assert await ask(client, "report", run="runs/rows.report.jsonl", seen=seen) == {"changed_at": seen}
    for name, asked in (("report", "runs/seen"), ("rows", "runs/rows.report.jsonl")):
        assert (await client.get(f"/api/{name}", params={"run": asked})).status_code == 400


async def test_a_failure_has_its_owner_and_message(client: httpx.AsyncClient) -> None:
    page = await ask(client, "rollout", group=3, member=1)
    assert page["failure"]["message"] == "the grader's <machine> died"


async def test_a_long_text_comes_in_pieces(client: httpx.AsyncClient) -> None:
    page = await ask(client, "rollout", group=0, member=0)
    result = page["turns"][0][5]
    assert len(result["text"]) == 4000 < LONG < result["length"]
    rest = await ask(client, "text", group=0, member=0, part=result["part"], offset=4000)
    assert rest["next"] is None
    assert (result["text"] + rest["text"]).endswith("x\nlast line")
    assert len(result["text"] + rest["text"]) == result["length"]


async def test_what_is_not_there_is_refused_by_name(client: httpx.AsyncClient) -> None:
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("rollout", {"group": 99, "member": 0}, "no_rollout"),
        ("text", {"group": 0, "member": 0, "part": "turns/99/0"}, "no_part"),
        ("text", {"group": 3, "member": 0, "part": "patch"}, "no_rollout"),
        ("tokens", {"group": 0, "member": 0, "call": -1}, "no_part"),
        *(
            ("text", {"group": 0, "member": 0, "part": f"calls/{part}"}, "no_part")
            for part in ("9/0", "0/9", "0", "-1/0", "x/y")
        ),
        ("search", {"text": ""}, "request_invalid"),
    ]
    for name, query, kind in refused:
        reply = await client.get(f"/api/{name}", params={"run": "runs/seen", **query})
        assert (reply.status_code, reply.json()["error"]["kind"]) == (400, kind)
    reply = await client.get("/api/rollout", params={"run": "runs/seen", "group": "x", "member": 0})
    assert (reply.status_code, reply.json()["error"]["message"][:6]) == (422, "group:")


async def test_a_line_that_was_damaged_is_no_rollout(client: httpx.AsyncClient, run: Path) -> None:
    await ask(client, "rows")
    file = run / "rollouts.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line[:40] + bytes([line[40] ^ 1]) + line[41:] for line in lines))
    reply = await client.get("/api/rollout", params={"run": "runs/seen", "group": 0, "member": 0})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (400, "line_damaged")


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("sed -i s/-/+/ calc.py", {0}),
        ("cat\ncalc.py", {0}),
        ('alert("x")', {1}),
        ("I give up.", {2}),
        ("nowhere", set()),
    ],
)
async def test_a_text_is_found_as_it_was_said(client: httpx.AsyncClient, text: str, groups: set[int]) -> None:
    found = (await ask(client, "search", text=text))["found"]
    assert {group for group, _ in found} == groups
    assert len({tuple(key) for key in found}) == len(found)


async def test_notes_are_lines_beside_the_run_and_the_last_counts(client: httpx.AsyncClient, run: Path) -> None:
    before = names_in(run)
    for label, text in (("cheat", "reads the tests"), ("good", "no: it does not")):
        note = {"group": 1, "member": 0, "label": label, "text": text}
        assert (await client.post("/api/notes", json=note)).status_code == 200
    with (run / "notes.jsonl").open("ab") as file:
        file.write(b"not a note\n")
    assert [(note["label"], note["text"]) for note in await ask(client, "notes")] == [("good", "no: it does not")]
    lines = (run / "notes.jsonl").read_bytes().splitlines()
    assert orjson.loads(lines[0])["label"] == "cheat"
    assert names_in(run) - before == {"notes.jsonl"}
    reply = await client.post("/api/notes", json={"group": 1, "member": 0, "label": "bad"})
    assert reply.status_code == 422
    assert (await client.post("/api/notes", json={"group": 1, "member": 0})).status_code == 200
    assert await ask(client, "notes") == []


async def test_what_recent_runs_have_come_to_is_shown_to_prometheus(client: httpx.AsyncClient, run: Path) -> None:
    copy_of_1970(run, run.parent / "old")
    shown = (await client.get("/metrics")).text
    counts = await ask(client, "counts")
    for outcome, count in counts["outcomes"].items():
        assert f'paddock_run_rollouts{{kind="evaluation",outcome="{outcome}",run="runs/seen"}} {count:.1f}' in shown
    assert f'paddock_run_reward{{kind="evaluation",run="runs/seen"}} {counts["mean_reward"]}' in shown
    assert "runs/old" not in shown


async def test_a_training_run_gives_its_metrics_as_they_come(client: httpx.AsyncClient, run: Path) -> None:
    file = run / "metrics.jsonl"
    file.write_bytes(b'{"step":1,"trained":true,"groups":[0],"metrics":{"train/kl":0.5}}\n{"step":2,')
    first = await ask(client, "metrics")
    assert [line["metrics"] for line in first["lines"]] == [{"train/kl": 0.5}]
    with file.open("ab") as more:
        more.write(b'"metrics":{"train/kl":0.25}}\n')
    assert [line["step"] for line in (await ask(client, "metrics", after=first["next"]))["lines"]] == [2]
    file.write_bytes(b"")
    assert (await ask(client, "metrics", after=2))["restarted"]
