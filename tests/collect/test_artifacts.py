"""Claims about files that agents of other machines leave beside rollouts: they come to the driver, whole or not at all.

Here a worker is a process of this machine that is used as one of a cluster; `test_ray_workers` has real ones.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.collect.worker_servers import SIZES

from paddock.collect import CollectionResult, Plan, worker_nodes
from paddock.collect.artifact_receiver import ArtifactReceiver, remove_incoming
from paddock.collect.artifact_sender import NOT_SENT, ArtifactSender
from paddock.collect.jobs import WorkerMessage
from paddock.collect.results import RolloutResult
from paddock.collect.worker_process import OpenLink, ProcessLink
from paddock.temporary import scratch_root

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Coroutine[Any, Any, CollectionResult]]
ROOT = Path(__file__).parents[2]
LEAVING = "tests.collect.worker_servers:LeavingAgent"


@pytest.fixture(autouse=True)
def _this_machine_as_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connect(address: str, **options: Any) -> Iterator[tuple[str, OpenLink]]:
        yield "127.0.0.1", ProcessLink.open

    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(worker_nodes, "connect", connect)
    monkeypatch.setattr(worker_nodes, "count_places", lambda label: 2)


@pytest.fixture
def leaving(make_case: MakeCase, tmp_path: Path) -> MakeCase:
    """A plan whose agent leaves files below `<name>-artifacts`."""

    def make(name: str, rows: int = 6, **settings: Any) -> Plan:
        block = {
            "artifacts_dir": str(tmp_path / f"{name}-artifacts"),
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy"},
        }
        top = {"leaver": {"agents": {LEAVING: block}}}
        return make_case(rows, agent="leaver", concurrency=4, top=top, **settings)

    return make


def files(root: Path) -> dict[str, bytes]:
    """All regular files of the one run below a folder, whose name differs from run to run."""
    (run,) = root.iterdir()
    found = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


@pytest.mark.slow
async def test_files_beside_rollouts_come_as_they_are_in_one_process(
    leaving: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    alone = await run_plan(leaving("alone"), "alone")
    sent = await run_plan(leaving("sent", workers=2, cluster="auto"), "sent")
    assert (sent.how, sent.n_verdicts) == (alone.how, alone.n_verdicts) == ("finished", 6)
    expected = files(tmp_path / "alone-artifacts")
    assert len(expected) == 8 * (len(SIZES) + 1)
    assert files(tmp_path / "sent-artifacts") == expected
    assert not scratch_root().exists() or not list(scratch_root().glob("*/*/*/*-name"))


async def test_what_passes_the_bound_is_named_and_the_rest_comes(tmp_path: Path) -> None:
    folder, kept = tmp_path / "here/run/4-0-1-name", tmp_path / "there"
    for name, size in {"a": 600_000, "b": 600_000, "c": 400_000, "d": 0}.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"-" * size)
    ended = RolloutResult(group_id=4, member=0, attempt=1, agent="agent", outcome="cancelled")
    receiver = ArtifactReceiver({"agent": kept})
    await ArtifactSender({"agent": tmp_path / "here"}, 1_000_000).send(1, ended, receiver.take)
    await receiver.keep(1)
    assert not folder.exists()
    assert below(kept / "run/4-0-1-name") == ["a", "c", "d", NOT_SENT]
    assert (kept / "run/4-0-1-name" / NOT_SENT).read_text() == "b: 600000 bytes pass eval.max_artifacts_mib\n"


def piece(name: str, data: bytes = b"x", *, last: bool = True) -> WorkerMessage:
    return WorkerMessage({"job": 1, "file": {"agent": "agent", "name": name, "last": last}}, data)


def below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


async def test_a_lost_worker_s_files_leave_nothing(tmp_path: Path) -> None:
    receiver = ArtifactReceiver({"agent": tmp_path})
    await receiver.take(piece("run/0-0-0/whole"))
    await receiver.take(piece("run/0-0-0/half", last=False))
    await receiver.close()
    await receiver.take(piece("run/0-0-0/late"))
    await receiver.keep(1)
    assert list((tmp_path / "run").iterdir()) == []


async def test_an_attempt_s_files_take_the_place_of_older_ones_at_its_end(tmp_path: Path) -> None:
    receiver = ArtifactReceiver({"agent": tmp_path})
    for name in ("old", "new"):
        await receiver.take(piece(f"run/0-0-0/{name}"))
        assert below(tmp_path) == [f"run/.0-0-0.incoming/{name}", *(["run/0-0-0/old"] if name == "new" else [])]
        await receiver.keep(1)
        assert below(tmp_path) == [f"run/0-0-0/{name}"]


async def test_a_file_whose_end_does_not_come_is_left_out(tmp_path: Path) -> None:
    receiver = ArtifactReceiver({"agent": tmp_path})
    await receiver.take(piece("run/0-0-0/half", last=False))
    await receiver.take(piece("run/0-0-0/whole"))
    await receiver.keep(1)
    assert below(tmp_path) == ["run/0-0-0/whole"]


@pytest.mark.parametrize("name", ["../../out/of/root", "/abs/olute/name", "run/../../x", "run/short", "run/nul/\0"])
async def test_a_name_outside_its_root_is_logged_and_nothing_of_the_attempt_is_kept(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = ArtifactReceiver({"agent": tmp_path / "root"})
    await receiver.take(piece("run/0-0-0/good"))
    await receiver.take(piece(name))
    await receiver.take(piece("run/0-0-0/after"))
    await receiver.keep(1)
    assert below(tmp_path) == []
    assert "files of an attempt are not kept" in caplog.text
    await receiver.take(piece("run/0-0-1/next"))
    await receiver.keep(1)
    assert below(tmp_path) == ["root/run/0-0-1/next"]


def test_what_a_killed_driver_left_is_removed(tmp_path: Path) -> None:
    for name in (".0-0-0.incoming", "0-0-1"):
        (tmp_path / "run" / name).mkdir(parents=True)
    remove_incoming({"agent": tmp_path}, "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["0-0-1"]
