"""Claims about formats: older folders are read, later ones are refused in words, and nothing in them is destroyed."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson
import pytest

from paddock.collect import CollectionResult, Plan, read_identity
from paddock.collect.lines import seal
from paddock.collect.recovery import recover
from paddock.collect.repair import check_folder, repair_folder
from paddock.errors import ConfigError

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Awaitable[CollectionResult]]
ROW = {"responses_create_params": {"input": "q"}, "answer": "yes"}
ROWS: list[Any] = [ROW, ROW, {**ROW, "grade": "leak"}, ROW, ROW]


@pytest.fixture
async def folder(make_case: MakeCase, run_plan: RunPlan, tmp_path: Path) -> Path:
    await run_plan(make_case(ROWS))
    return tmp_path / "run"


@pytest.fixture
def older(folder: Path) -> Path:
    """The same run as format 1 had it: no digests, and no format."""
    for name in ("rollouts.jsonl", "failures.jsonl", "index.jsonl"):
        lines = [orjson.loads(line) for line in (folder / name).read_bytes().splitlines()]
        for line in lines:
            del line["_paddock_format"], line["_paddock_crc32"]
            line.pop("crc32", None)
        (folder / name).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    identity = orjson.loads((folder / "run.json").read_bytes())
    del identity["format"]
    (folder / "run.json").write_bytes(orjson.dumps(identity))
    return folder


def change_identity(folder: Path, **changes: Any) -> None:
    path = folder / "run.json"
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **changes}))


def change_line(folder: Path, change: Callable[[dict[str, Any]], None], number: int = 1) -> bytes:
    """A rollout's line as another program would have written it, with a digest; all bytes of the file."""
    rollouts = folder / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    line = orjson.loads(lines[number - 1])
    del line["_paddock_format"], line["_paddock_crc32"]
    change(line)
    lines[number - 1] = seal(orjson.dumps(line) + b"\n")
    rollouts.write_bytes(b"".join(lines))
    return rollouts.read_bytes()


async def test_an_older_run_is_read_and_gone_on_with(older: Path, make_case: MakeCase, run_plan: RunPlan) -> None:
    assert read_identity(older).format == 1
    assert [result.reward for result in recover(older).verdicts] == [1.0] * 4
    rollouts = older / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    rollouts.write_bytes(b"".join(lines[:2]))
    assert (await run_plan(make_case(ROWS), resume=True)).n_verdicts == 4
    assert rollouts.read_bytes().startswith(b"".join(lines[:2]))
    assert [b"_paddock_crc32" in line for line in rollouts.read_bytes().splitlines()] == [False, False, True, True]
    assert check_folder(older).findings == []


def test_a_line_without_a_digest_after_one_with_it_is_damaged(older: Path) -> None:
    rollouts = older / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    rollouts.write_bytes(b"".join([seal(lines[0]), *lines[1:]]))
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:2: damaged: it has no digest"):
        recover(older)


def test_a_key_that_is_damaged_in_an_older_line_is_not_row_0(older: Path) -> None:
    rollouts = older / "rollouts.jsonl"
    rollouts.write_bytes(rollouts.read_bytes().replace(b"_ng_task_index", b"_ng_tusk_index", 1))
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:1: .*`_ng_task_index`.* is missing"):
        recover(older)
    rollouts.write_bytes(rollouts.read_bytes().replace(b'"_ng_tusk_index":0', b'"_ng_task_index":9', 1))
    with pytest.raises(ConfigError, match=r"rollout 9-0 is none of this run's rollouts"):
        recover(older)


def test_a_repair_gives_older_lines_their_digests(older: Path) -> None:
    before = recover(older)
    done = repair_folder(older)
    assert (done.n_sealed, done.set_aside, done.left) == (5, [], [])
    assert read_identity(older).format == 2
    assert not (older / "damaged.jsonl").exists()
    after = recover(older)
    assert [result.reward for result in after.verdicts] == [result.reward for result in before.verdicts]
    assert (after.failures.keys(), after.repairs) == (before.failures.keys(), [])
    assert all(b"_paddock_crc32" in line for line in (older / "rollouts.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 3}, "it is of format 3, and this paddock reads up to format 2"),
        ({"newfield": 1}, "it has a field unknown here: newfield; it was written by paddock"),
        ({"n_rows": "many"}, "n_rows"),
    ],
)
async def test_an_identity_that_is_not_known_is_refused_in_words(
    folder: Path, make_case: MakeCase, run_plan: RunPlan, changes: dict[str, Any], words: str
) -> None:
    change_identity(folder, **changes)
    with pytest.raises(ConfigError) as caught:
        await run_plan(make_case(ROWS), resume=True)
    assert words in caught.value.message
    assert "nothing was changed" in caught.value.message
    assert "pydantic" not in caught.value.message


@pytest.mark.parametrize(("data", "words"), [(b"", "is empty"), (b"{", "is no JSON"), (b"[1]", "no JSON object")])
def test_an_identity_that_is_none_is_refused_in_words(folder: Path, data: bytes, words: str) -> None:
    (folder / "run.json").write_bytes(data)
    with pytest.raises(ConfigError, match=words):
        recover(folder)


def test_a_line_of_a_later_format_is_refused_and_never_set_aside(folder: Path) -> None:
    def newfield(line: dict[str, Any]) -> None:
        line["rollout"]["newfield"] = 1

    data = change_line(folder, newfield)
    (folder / "index.jsonl").unlink()
    with pytest.raises(ConfigError) as caught:
        recover(folder)
    assert "rollouts.jsonl:1: it has a field unknown here: newfield: it was written by another paddock" in str(
        caught.value
    )
    assert "repair" not in caught.value.message
    assert [found.kind for found in repair_folder(folder).left] == ["foreign"]
    assert (folder / "rollouts.jsonl").read_bytes() == data


def test_a_line_s_own_format_is_looked_at(folder: Path) -> None:
    rollouts = folder / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    later = orjson.loads(lines[0])
    del later["_paddock_format"], later["_paddock_crc32"]
    body = orjson.dumps(later)[:-1] + b',"_paddock_format":3'
    lines[0] = body + b',"_paddock_crc32":"%08x"}\n' % crc32(body)
    rollouts.write_bytes(b"".join(lines))
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:1: it is of format 3.*; nothing was changed"):
        recover(folder)
    assert repair_folder(folder).set_aside == []
    assert rollouts.read_bytes() == b"".join(lines)
