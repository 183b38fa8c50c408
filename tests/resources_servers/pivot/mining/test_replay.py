"""Claims about replays: a step has a snapshot where all before it came out as recorded; nothing half-done is left."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.edits import Replace
from paddock.errors import ConfigError
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.step import StepSnapshot
from paddock.resources_servers.pivot.mining.candidates import Candidates
from paddock.resources_servers.pivot.mining.forms import read_record
from paddock.resources_servers.pivot.mining.replay import TrajectoryReplay
from paddock.resources_servers.pivot.mining.replay_options import ReplayOptions
from paddock.resources_servers.pivot.mining.replay_results import difference
from paddock.resources_servers.pivot.mining.replays import (
    drop_snapshots,
    read_images,
    read_replays,
    replay_candidates,
    replay_report,
)
from paddock.resources_servers.pivot.mining.rows import row_of
from paddock.sandbox import SandboxSettings
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.tools import Edit, ReadFile, ShellCommand
from paddock.types import JsonObject

LS, READ = ShellCommand("ls"), ReadFile("a.py")
EDIT = Edit((Replace("a.py", "x", "y"),))
STRICT = 0.9


@pytest.mark.parametrize(
    ("shown", "recorded"),
    [
        ("a.py\nb.py\n", "<returncode>0</returncode>\n<output>\na.py\nb.py\n</output>"),
        ("a.py\n", "a.py\n[The command completed with exit code 0.]\n[Current working directory: /testbed]"),
        ("3 passed in 0.12s\n", "3 passed in 4.03s"),
        ("<f at 0x7f001122>", "<f at 0x7fa0deadbeef>"),
        ("/tmp/tmpab12/x: ok", "/tmp/tmpzz99/x: ok"),
        ("-rw-r--r-- 1 root root 5 Nov 27 18:19 a.py", "-rw-r--r-- 1 root root 5 Jan  3  2024 a.py"),
        (
            "total 8\ndrwxr-xr-x 2 root root 4096 Nov 27 18:19 src\n-rw-r--r-- 1 root root 5 Nov 27 18:19 a.py",
            "total 16\ndrwxrwxrwx 1 tom users 22 Jan  3  2024 src\n-rw-rw-r-- 2 tom users 5 Jan  3  2024 a.py",
        ),
        ("..s......F....", "....F.......s."),
        ("Testing against Django with up to 2 processes", "Testing against Django with up to 64 processes"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("", "Your command ran successfully and did not produce any output."),
    ],
)
def test_what_differs_at_each_run_and_what_the_harness_notes_do_not_count(shown: str, recorded: str) -> None:
    assert difference(LS, shown, "", recorded, STRICT) == ""


@pytest.mark.parametrize(
    ("shown", "recorded"),
    [
        ("a.py\n", "b.py\n"),
        ("", "ls: cannot access 'x': No such file or directory"),
        ("ls: cannot access 'x': No such file or directory", ""),
        ("2 passed in 0.1s", "3 passed in 0.1s"),
        ("total = amount + 1", "total = amount + 2"),
        ("-rw-r--r-- 1 root root 5 Nov 27 18:19 a.py", "-rw-r--r-- 1 root root 6 Nov 27 18:19 a.py"),
        ("-rw-r--r-- 1 root root 5 Nov 27 18:19 a.py", "-rwxr-xr-x 1 root root 5 Nov 27 18:19 a.py"),
    ],
)
def test_another_result_is_told(shown: str, recorded: str) -> None:
    assert difference(LS, shown, "", recorded, STRICT)


def test_what_is_cut_of_a_walk_is_not_compared_where_nothing_is_changed() -> None:
    walk = ShellCommand("find . -name '*.py' | head -n 1")
    assert difference(walk, "./a.py", "", "./b.py", STRICT) == ""
    assert difference(ShellCommand("find . -name '*.py'"), "./a.py", "", "./b.py", STRICT)
    assert difference(ShellCommand("find . -exec rm {} + | head -n 1"), "./a.py", "", "./b.py", STRICT)
    assert difference(ShellCommand("cat a.py | head -n 1"), "x = 1", "", "x = 2", STRICT)


LINES = st.lists(st.text("abcxyz", min_size=1, max_size=6), min_size=1, max_size=30)


@given(LINES, st.data())
def test_a_result_is_its_own_and_one_with_a_third_of_its_lines_changed_is_not(
    lines: list[str], data: st.DataObject
) -> None:
    text = "\n".join(lines)
    assert difference(LS, text, "", text, STRICT) == ""
    changed = [f"other {line}" if index % 3 == 0 else line for index, line in enumerate(lines)]
    assert difference(LS, "\n".join(changed), "", text, STRICT)


def test_an_edit_is_refused_on_both_sides_or_on_none() -> None:
    refused = "No replacement was performed, old_str `x` did not appear verbatim"
    assert difference(EDIT, "", "", "The file a.py has been edited.", STRICT) == ""
    assert difference(EDIT, "", "the edit is refused", refused, STRICT) == ""
    assert difference(EDIT, "", "", refused, STRICT)
    assert difference(EDIT, "", "the edit is refused", "The file a.py has been edited.", STRICT)


def test_a_read_may_be_framed_by_its_tool() -> None:
    recorded = "Here's the result of running `cat -n` on /r/a.py:\n     1\tx = 1\n     2\ty = 2\n"
    assert difference(READ, "x = 1\ny = 2", "", recorded, STRICT) == ""
    assert difference(READ, "x = 1\ny = 3", "", recorded, STRICT)


FILES = {"a.py": "x = 1\n", "src/b.py": "y = 1\n"}
STEPS = [
    ("bash", {"command": "cat a.py"}, "x = 1"),
    ("bash", {"command": "sed -i 's/1/2/' a.py"}, ""),
    ("bash", {"command": "cat a.py"}, "x = 2"),
    ("str_replace_editor", {"command": "create", "path": f"{WORKDIR}/c.py", "file_text": "z\n"}, "File created."),
    ("bash", {"command": "cat a.py c.py"}, "x = 2\nz"),
    ("bash", {"command": "git status --short"}, " M a.py\n?? c.py"),
]


def trajectory(*steps: tuple[str, dict[str, Any], str], name: str = "t") -> JsonObject:
    items: list[JsonObject] = [{"type": "message", "role": "user", "content": "Fix it."}]
    for number, (tool, arguments, result) in enumerate(steps):
        call_id = f"c{number}"
        items.append({"type": "function_call", "name": tool, "call_id": call_id, "arguments": json.dumps(arguments)})
        items.append({"type": "function_call_output", "call_id": call_id, "output": result})
    return {"items": items, "instance_id": name, "cwd": WORKDIR}


class Mine:
    """A store with an image, and a folder."""

    def __init__(self, home: Path, root: Path) -> None:
        self.root = root
        self.store = store_of(home)
        self.image = repository_image(self.store, "repo", FILES)
        self.executed = ExecutedOptions(sandbox=SandboxSettings(home=home), timeout_s=20)
        self.found = Candidates(100_000)

    def replays(self, *records: JsonObject, **options: float) -> dict[str, TrajectoryReplay]:
        self.found = Candidates(100_000)
        for record in records:
            self.found.add(read_record(record, "t"))
        images = {record["instance_id"]: StepSnapshot(image=self.image, workdir=WORKDIR) for record in records}
        work = replay_candidates(self.root, self.found.rows, images, self.executed, ReplayOptions(**options))
        return asyncio.run(work)

    def kept(self) -> set[str]:
        return {name for name in self.store.names() if name.startswith("pivot/")}


needs_sandbox = pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox here")


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Mine]:
    with sandbox_home() as home:
        yield Mine(home, tmp_path / "mine")


@pytest.mark.sandbox
@needs_sandbox
def test_steps_start_from_the_files_that_the_expert_found(mine: Mine) -> None:
    replay = mine.replays(trajectory(*STEPS))["t"]
    assert (replay.end, replay.step, replay.detail) == ("whole", 6, "")
    images = [replay.snapshots[number].image for number in range(6)]
    assert images[0] == images[1] == mine.image
    assert images[2] == images[3] != images[4] == images[5]
    assert mine.kept() == {images[2], images[4]} == set(replay.names)
    last = mine.store.get(images[4]).layers[-1]
    assert (last / "testbed/a.py").read_text() == "x = 2\n"
    rows = [row_of(candidate, {"t": replay}) for candidate in mine.found.rows]
    assert [row["snapshot"]["image"] for row in rows] == images
    drop_snapshots(mine.root, mine.executed, {images[4]})
    assert mine.kept() == {images[4]}


@pytest.mark.slow
@pytest.mark.sandbox
@needs_sandbox
def test_a_replay_ends_where_a_result_is_another_and_says_why(mine: Mine) -> None:
    spoilt = [*STEPS[:2], ("bash", {"command": "cat a.py"}, "x = 3"), *STEPS[3:]]
    slow = [("bash", {"command": "sleep 30"}, ""), STEPS[0]]
    replays = mine.replays(trajectory(*spoilt), trajectory(*slow, name="slow"), trajectory(*STEPS, name="good"))
    assert (replays["t"].end, replays["t"].step, sorted(replays["t"].snapshots)) == ("differs", 2, [0, 1, 2])
    assert (replays["slow"].end, replays["slow"].step) == ("differs", 0)
    assert "killed (timeout)" in replays["slow"].detail
    report = replay_report(replays)
    assert report["ends"] == {"differs": 2, "whole": 1}
    assert [entry["step"] for entry in report["ended_early"]] == [2, 0]


@pytest.mark.slow
@pytest.mark.sandbox
@needs_sandbox
def test_snapshots_take_no_more_disk_than_they_may(mine: Mine) -> None:
    replay = mine.replays(trajectory(*STEPS), max_snapshots_mib=0)["t"]
    assert (replay.end, replay.step, sorted(replay.snapshots)) == ("disk", 2, [0, 1])
    assert mine.kept() == set()


@pytest.mark.slow
@pytest.mark.sandbox
@needs_sandbox
def test_what_a_killed_command_left_is_removed_and_what_is_done_is_not_played_again(mine: Mine) -> None:
    first = mine.replays(trajectory(*STEPS))
    names = mine.kept()
    left = f"{sorted(names)[0].rsplit('/', 2)[0]}/half-done/3"
    mine.store.name(mine.store.get("repo").record.model_copy(update={"name": left}))
    assert mine.replays(trajectory(*STEPS), trajectory(*STEPS, name="more"))["t"] == first["t"]
    assert left not in mine.kept()
    assert mine.kept() > names
    assert sorted(read_replays(mine.root)) == ["more", "t"]


@pytest.mark.slow
@pytest.mark.sandbox
@needs_sandbox
def test_a_trajectory_without_an_image_says_so(mine: Mine) -> None:
    found = Candidates(100_000)
    found.add(read_record(trajectory(*STEPS), "t"))
    replays = asyncio.run(replay_candidates(mine.root, found.rows, {}, mine.executed, ReplayOptions()))
    assert (replays["t"].end, replays["t"].snapshots) == ("no_image", {})


def test_a_file_of_images_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "images.json"
    path.write_bytes(orjson.dumps({"a/b": {"image": "x", "workdir": "relative"}}))
    with pytest.raises(ConfigError, match="workdir"):
        read_images(path)
    with pytest.raises(ConfigError, match="No such file"):
        read_images(tmp_path / "none.json")
