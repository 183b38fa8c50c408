"""Claims about the turn store: what was appended is there, bounds hold, and nothing is lost in silence."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import BugError, InfraError
from paddock.tokens import FrozenError, TurnIndex, TurnStore
from paddock.types import JsonObject, RolloutSettings, Turn, Usage


def turn(turn_id: str, parent: str | None = None, size: int = 3) -> Turn:
    return Turn(
        id=turn_id,
        parent=parent,
        prompt_ids=list(range(size)),
        sampled_ids=[7, 8],
        log_probs=[-0.1, -1.25e-9],
        weight_version="v1",
        finish_reason="tool_calls",
        request_hash="ab",
        output=[{"type": "message", "role": "assistant", "content": "grüße"}],
        usage=Usage(input_tokens=3, output_tokens=2),
    )


def open_store(folder: Path, **bounds: Any) -> TurnStore:
    return TurnStore(folder, engine="spliced", **bounds)


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    turns = [turn("a"), turn("b", "a"), turn("c")]
    store = open_store(tmp_path / "new" / "folder")
    for each in turns:
        store.append("ro_1", each)
    store.append("ro_2", turn("x"))
    again = open_store(tmp_path / "new" / "folder")
    assert list(again.turns("ro_1")) == turns
    again.append("ro_1", turn("d", "c"))
    assert [each.id for each in again.freeze("ro_1").turns] == ["a", "b", "c", "d"]
    assert [each.id for each in again.freeze("ro_2").turns] == ["x"]


def test_what_a_turns_request_told_is_known_after_a_restart_and_is_no_part_of_the_record(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    told: JsonObject = {"type": "message", "role": "user", "content": "Go."}
    digest = TurnIndex().match([told]).digest
    store.append("ro_1", turn("a"), digest)
    store.append("ro_1", turn("b", "a"))
    for current in (store, open_store(tmp_path)):
        assert current.open("ro_1").index.match([told, *turn("a").output, told]).turn == "a"
        assert list(current.turns("ro_1")) == [turn("a"), turn("b", "a")]


def test_the_last_settings_of_a_rollout_hold_also_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.open("ro_1").settings == RolloutSettings()
    for max_turns in (3, 2):
        store.set("ro_1", RolloutSettings(sampling={"temperature": 0.5}, max_turns=max_turns))
    store.append("ro_1", turn("a"))
    for current in (store, open_store(tmp_path)):
        assert current.open("ro_1").settings == RolloutSettings(sampling={"temperature": 0.5}, max_turns=2)
        assert list(current.turns("ro_1")) == [turn("a")]


def test_a_frozen_rollout_is_final_also_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append("ro_1", turn("a"))
    record = store.freeze("ro_1")
    assert (record.engine, len(record.turns)) == ("spliced", 1)
    for current in (store, open_store(tmp_path)):
        with pytest.raises(FrozenError) as caught:
            current.append("ro_1", turn("b"))
        assert (caught.value.kind, caught.value.status) == ("frozen", 409)
        with pytest.raises(FrozenError):
            current.open("ro_1")
        assert current.freeze("ro_1") == record


def test_an_unknown_rollout_has_no_turns_and_may_be_forgotten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.forget("ro_unknown")
    assert store.freeze("ro_unknown").turns == []
    store.append("ro_1", turn("a"))
    store.forget("ro_1")
    assert store.freeze("ro_1").turns == []
    store.forget("ro_1")
    store.forget("ro_unknown")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("torn", [b"{", b'{"id": "c", "parent": nu', b"\xff\x00"])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    store = open_store(tmp_path)
    store.append("ro_1", turn("a"))
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(torn)
    again = open_store(tmp_path)
    again.append("ro_1", turn("b", "a"))
    assert [each.id for each in open_store(tmp_path).freeze("ro_1").turns] == ["a", "b"]


@pytest.mark.parametrize("line", [b"{}\n", b"[1]\n", b"not json\n"])
def test_a_line_that_is_no_turn_is_an_error_and_not_skipped(tmp_path: Path, line: bytes) -> None:
    open_store(tmp_path).append("ro_1", turn("a"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(line + path.read_bytes())
    with pytest.raises(InfraError) as caught:
        open_store(tmp_path).freeze("ro_1")
    assert caught.value.kind == "turns_unreadable"


def test_files_are_private_and_do_not_hold_the_secret(tmp_path: Path) -> None:
    store = open_store(tmp_path / "turns")
    store.append("ro_secret", turn("a"))
    store.freeze("ro_secret")
    (path,) = (tmp_path / "turns").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "ro_secret" not in path.name + path.read_text() + repr(store)


def test_a_turn_that_can_not_be_joined_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append("ro_1", turn("a"))
    for odd in (turn("a"), turn("b", "unknown")):
        with pytest.raises(BugError):
            store.append("ro_1", odd)
    assert len(store.freeze("ro_1").turns) == 1


def test_rollouts_that_left_memory_are_read_again(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_memory_bytes=20_000)
    for number in range(6):
        for secret in range(20):
            parent = str(number - 1) if number else None
            store.append(f"ro_{secret}", turn(str(number), parent, size=100))
    for secret in range(20):
        assert [each.id for each in store.freeze(f"ro_{secret}").turns] == [*"012345"]


def test_rollouts_that_nobody_touches_are_deleted_by_age(tmp_path: Path) -> None:
    now = 1_000_000.0
    store = open_store(tmp_path, max_age_s=100, clock=lambda: now)
    for secret in ("ro_old", "ro_new"):
        store.append(secret, turn("a"))
        (path,) = set(tmp_path.iterdir()) - set(tmp_path.glob("kept*"))
        age_s = 101 if secret == "ro_old" else 99
        os.utime(path, (now - age_s, now - age_s))
        path.rename(tmp_path / f"kept-{path.name}")
    for path in tmp_path.iterdir():
        path.rename(tmp_path / path.name.removeprefix("kept-"))
    store.sweep()
    assert len(list(tmp_path.iterdir())) == 1
    assert (len(store.freeze("ro_old").turns), len(store.freeze("ro_new").turns)) == (0, 1)


def test_appending_sweeps_now_and_then(tmp_path: Path) -> None:
    times = [1_000_000.0]
    store = open_store(tmp_path, max_age_s=100, clock=lambda: times[-1])
    store.append("ro_old", turn("a"))
    (old,) = tmp_path.iterdir()
    os.utime(old, (1.0, 1.0))
    store.append("ro_new", turn("a"))
    assert old.exists()
    times.append(times[-1] + 301)
    (new,) = set(tmp_path.iterdir()) - {old}
    os.utime(new, (times[-1], times[-1]))
    store.append("ro_new", turn("b"))
    assert not old.exists()


def test_beyond_the_disk_space_the_longest_idle_go_and_say_so_for_ever(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    seen: set[Path] = set()
    for number in range(5):
        store.append(f"ro_{number}", turn("a", size=1000))
        (path,) = set(tmp_path.iterdir()) - seen
        seen.add(path)
        size = path.stat().st_size
        os.utime(path, (2e9 + number, 2e9 + number))
    bounds = {"max_disk_bytes": 3 * size, "max_age_s": 1e12}
    bound = open_store(tmp_path, **bounds)
    for current in (bound, open_store(tmp_path, **bounds)):
        for number in range(2):
            with pytest.raises(InfraError) as caught:
                current.freeze(f"ro_{number}")
            assert caught.value.kind == "turns_dropped"
            with pytest.raises(InfraError):
                current.append(f"ro_{number}", turn("b"))
        assert [len(current.turns(f"ro_{number}")) for number in (2, 3, 4)] == [1, 1, 1]


def test_a_disk_that_refuses_is_an_infrastructure_failure_and_records_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "turns")
    store.append("ro_1", turn("a"))
    (tmp_path / "turns").rename(tmp_path / "away")
    (tmp_path / "turns").write_text("in the way")
    with pytest.raises(InfraError) as caught:
        store.append("ro_2", turn("b"))
    (tmp_path / "turns").unlink()
    (tmp_path / "away").rename(tmp_path / "turns")
    assert caught.value.kind == "turn_store"
    assert [len(store.turns(secret)) for secret in ("ro_1", "ro_2")] == [1, 0]


def test_closing_leaves_a_folder_only_if_it_holds_turns(tmp_path: Path) -> None:
    for secret in ("ro_1", None):
        store = open_store(tmp_path / "turns")
        store.append("ro_x", turn("a"))
        store.forget("ro_x")
        if secret:
            store.append(secret, turn("a"))
        store.close()
        assert (tmp_path / "turns").exists() == (secret is not None)
        open_store(tmp_path / "turns").forget("ro_1")
