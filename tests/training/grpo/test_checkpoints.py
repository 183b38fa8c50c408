"""Claims about checkpoints on the disk: whole or not there, and which are kept."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from paddock.errors import InfraError
from paddock.training.core.testing import as_lists, group, member
from paddock.training.grpo.checkpoints import Checkpoint, Checkpoints, LoopState, write_whole_folder

STATE = LoopState({"step": 3}, [group(member(0), member(1, None), group_id=5, version=2)])


async def fill(folder: Path) -> None:
    (folder / "policy" / "weights").write_bytes(b"1234")
    (folder / "rollouts" / "journals.json").write_text("{}")


def write(checkpoints: Checkpoints, step: int, metric: float | None = None) -> Checkpoint:
    return asyncio.run(checkpoints.write(step, metric, STATE, fill))


def steps(checkpoints: Checkpoints) -> list[int]:
    return [stored.step for stored in checkpoints.all()]


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "deep" / "checkpoints")
    assert checkpoints.newest() is None
    assert checkpoints.best() is None
    stored = write(checkpoints, 3, 0.5)
    assert checkpoints.newest() == stored == Checkpoint(3, 0.5, tmp_path / "deep" / "checkpoints" / "step_3")
    assert as_lists(stored.read()) == as_lists(STATE)
    assert (stored.policy / "weights").read_bytes() == b"1234"
    assert (stored.rollouts / "journals.json").read_text() == "{}"
    assert list(stored.folder.parent.iterdir()) == [stored.folder]


def test_groups_as_the_version_before_wrote_them_are_read(tmp_path: Path) -> None:
    stored = write(Checkpoints(tmp_path), 3)
    (stored.folder / "waiting.npz").unlink()
    one = member(1, 0.5, samples=[])
    line = {**group(size=2, group_id=7)._asdict(), "members": [one._asdict()]}
    (stored.folder / "buffer.jsonl").write_bytes(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    assert stored.read().waiting == [group(one, size=2, group_id=7)]


class InterruptionError(Exception):
    """In the middle of writing."""


def test_what_was_not_finished_is_not_there(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    whole = write(checkpoints, 1)

    async def half(folder: Path) -> None:
        await fill(folder)
        raise InterruptionError

    for _ in range(2):
        with pytest.raises(InterruptionError):
            asyncio.run(checkpoints.write(2, None, STATE, half))
    assert checkpoints.newest() == whole
    assert len(list(tmp_path.iterdir())) == 2
    checkpoints.clean()
    assert list(tmp_path.iterdir()) == [whole.folder]
    assert write(checkpoints, 2).step == 2


@pytest.mark.parametrize("hurt", ["weights", "checkpoint.json", "loop.json", "waiting.npz"])
@pytest.mark.parametrize("cut", [True, False])
def test_a_copy_that_is_not_whole_is_not_read(tmp_path: Path, hurt: str, cut: bool) -> None:
    checkpoints = Checkpoints(tmp_path)
    whole, other = write(checkpoints, 1), write(checkpoints, 2)
    (path,) = other.folder.rglob(hurt)
    if cut:
        path.write_bytes(path.read_bytes()[:-3])
    else:
        path.unlink()
    assert checkpoints.newest() == whole
    checkpoints.clean()
    assert list(tmp_path.iterdir()) == [whole.folder]


@pytest.mark.parametrize(("hurt", "at"), [("waiting.npz", b"groups"), ("loop.json", b"{")])
def test_a_damaged_one_is_named_with_what_helps(tmp_path: Path, hurt: str, at: bytes) -> None:
    stored = write(Checkpoints(tmp_path), 1)
    content = bytearray((stored.folder / hurt).read_bytes())
    content[content.index(at)] ^= 1
    (stored.folder / hurt).write_bytes(content)
    with pytest.raises(InfraError, match=r"step_1 can't be read: .*goes on from the one before"):
        stored.read()


def test_what_the_disk_does_not_show_now_is_not_removed(tmp_path: Path) -> None:
    stored = write(Checkpoints(tmp_path), 1)
    (stored.folder / "checkpoint.json").unlink()
    (stored.folder / "checkpoint.json").symlink_to("checkpoint.json")
    for ask in (Checkpoints(tmp_path).newest, Checkpoints(tmp_path).clean):
        with pytest.raises(InfraError, match=r"step_1: can't be read: .*symbolic links"):
            ask()
    assert (stored.policy / "weights").exists()


def test_a_step_that_is_stored_again_is_the_later_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, 1, 0.1)
    assert write(checkpoints, 1, 0.2) == checkpoints.newest()
    assert list(tmp_path.iterdir()) == [tmp_path / "step_1"]


@pytest.mark.parametrize(
    ("metrics", "higher", "keep", "kept", "best"),
    [
        ([0.1, 0.9, 0.5, 0.2], True, 2, [2, 3, 4], 2),
        ([0.1, 0.9, 0.5, 0.2], False, 2, [1, 4], 1),
        ([0.1, 0.9, 0.5, 0.95], True, 2, [2, 4], 4),
        ([0.5, 0.5, 0.5], True, 1, [3], 3),
        ([None, 0.1, None], True, 1, [2, 3], 2),
        ([None, None, None], True, 2, [2, 3], 3),
        ([0.1, 0.2, 0.3], True, None, [1, 2, 3], 3),
        ([-3.0, -1.0, -2.0], True, 1, [2, 3], 2),
    ],
)
def test_the_best_are_kept_and_the_newest(
    tmp_path: Path, metrics: Sequence[float | None], higher: bool, keep: int | None, kept: list[int], best: int
) -> None:
    checkpoints = Checkpoints(tmp_path, keep_top_k=keep, higher_is_better=higher)
    for step, metric in enumerate(metrics, 1):
        newest = write(checkpoints, step, metric)
        assert checkpoints.newest() == newest
    assert steps(checkpoints) == kept
    found = checkpoints.best()
    assert found is not None
    assert found.step == best
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step_{step}" for step in kept]


def test_steps_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_top_k=None)
    for step in (9, 10, 100):
        write(checkpoints, step)
    assert steps(checkpoints) == [9, 10, 100]


def test_a_disk_that_refuses_is_an_infra_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfraError, match="can't be written") as raised:
        write(Checkpoints(tmp_path / "file"), 1)
    assert (raised.value.kind, raised.value.retryable) == ("disk", False)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    place = tmp_path / "export"

    async def first(folder: Path) -> None:
        (folder / "a").write_text("1")

    async def second(folder: Path) -> None:
        (folder / "b").write_text("2")
        assert (place / "a").exists()

    asyncio.run(write_whole_folder(place, first))
    asyncio.run(write_whole_folder(place, second))
    assert [path.name for path in place.iterdir()] == ["b"]
    assert list(tmp_path.iterdir()) == [place]


def test_what_is_not_of_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    whole = write(checkpoints, 1)
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / ".step_2.new" / "policy").mkdir(parents=True)
    (tmp_path / ".step_1.gone").mkdir()
    for name in (".run.json.new", "step_7", "step_of_others"):
        (tmp_path / name).write_text("a file")
    (tmp_path / "step_best").mkdir()
    (whole.folder / "policy" / "notes.txt").write_text("of a reader")
    checkpoints.clean()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"step_1", ".git", ".run.json.new", "step_7", "step_of_others", "step_best"}
    assert checkpoints.all() == [whole]
