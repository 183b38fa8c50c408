"""Records and errors go over the wire without a loss."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.errors import InfraError, PaddockError
from paddock.sandbox import (
    BudgetExceeded,
    ExecRequest,
    ExecResult,
    ImageDamaged,
    ImageMissing,
    MemoryKill,
    Output,
    Patch,
    PathChange,
    RuntimeMissing,
    SandboxError,
    SandboxGone,
    SandboxHandle,
    SandboxRequestError,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.errors import error_from_wire, error_to_wire
from paddock.sandbox.remote.room import FreeRoom, NodeFullError, NodeRoom
from paddock.types import Record

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats(0, 1e9, allow_nan=False)
COUNTS = st.integers(0, 2**40)
WORDS = st.dictionaries(TEXT, TEXT, max_size=3)
OUTPUTS = st.builds(Output, head=st.binary(), tail=st.binary(), dropped_bytes=COUNTS)
KILLED = st.sampled_from([None, "timeout", "memory", "cpu", "interrupt"])
SPECS = st.builds(SandboxSpec, image=TEXT, workdir=TEXT, env=WORDS, hostname=TEXT, labels=WORDS)
CHANGES = st.builds(PathChange, path=TEXT, kind=st.just("added"), type=st.just("symlink"), size_bytes=COUNTS)
KILLS = st.builds(MemoryKill, command=TEXT, memory_mib=NUMBERS, limit_mib=NUMBERS, by=st.just("kernel"))
STATS = st.builds(Stats, memory_mib=NUMBERS, peak_memory_mib=NUMBERS, disk_mib=NUMBERS, pids=COUNTS, cpu_s=NUMBERS)
RECORDS = st.one_of(
    SPECS,
    st.builds(SandboxHandle, sandbox_id=TEXT, runtime=st.just("podman"), spec=SPECS),
    st.builds(ExecRequest, argv=st.lists(TEXT, min_size=1), env=WORDS, stdin=st.binary(), merge_stderr=st.booleans()),
    st.builds(ExecResult, exit_code=st.integers(0, 255), stdout=OUTPUTS, stderr=OUTPUTS, duration_s=NUMBERS),
    st.builds(ShellRequest, workdir=TEXT, env=WORDS, rows=st.integers(1, 500)),
    st.builds(ShellResult, output=OUTPUTS, killed_by=KILLED, workdir=TEXT, closed=st.booleans()),
    st.builds(wire.LineRequest, line=TEXT, timeout_s=st.none() | NUMBERS),
    st.builds(wire.ShellInput, data=st.binary()),
    st.builds(wire.Changes, paths=st.lists(CHANGES, max_size=3)),
    st.builds(wire.Kills, kills=st.lists(KILLS, max_size=3)),
    st.builds(Patch, data=st.binary(), left_out_more=COUNTS),
    STATS,
)
OWNED = (SandboxError, RuntimeMissing, ImageDamaged, ImageMissing, ImageInvalid, SandboxRequestError)


@given(RECORDS)
def test_records_come_back_as_they_were(record: Record) -> None:
    assert wire.decode(type(record), wire.encode(record)) == record


@given(st.sampled_from(OWNED), TEXT, TEXT, st.none() | TEXT, st.booleans())
def test_errors_with_an_owner_come_back(
    cls: type[PaddockError], message: str, kind: str, stage: str | None, retryable: bool
) -> None:
    error = cls(message, kind=kind, stage=stage, retryable=retryable)
    back = error_from_wire(error_to_wire(error), "node")
    assert type(back) is cls
    assert isinstance(back, PaddockError)
    assert back.failure() == error.failure()
    assert str(back) == message


@given(TEXT, TEXT, st.booleans())
def test_one_that_is_gone_keeps_its_doubt(sandbox_id: str, detail: str, doubtful: bool) -> None:
    error = SandboxGone(sandbox_id, detail, doubtful=doubtful)
    back = error_from_wire(error_to_wire(error), "node")
    assert type(back) is SandboxGone
    assert (str(back), back.kind, back.doubtful) == (str(error), error.kind, doubtful)


@given(st.sampled_from(["memory", "disk", "cpu", "pids"]), TEXT)
def test_budgets_come_back(budget: str, message: str) -> None:
    error = BudgetExceeded(budget, message)  # type: ignore[arg-type] # one of them
    back = error_from_wire(error_to_wire(error), "node")
    assert isinstance(back, BudgetExceeded)
    assert (back.budget, back.message, str(back)) == (budget, message, message)


@pytest.mark.parametrize("draining", [False, True])
def test_a_refusal_comes_back_with_the_room_that_there_is(*, draining: bool) -> None:
    admission = AdmissionSettings(memory_mib=1000, cores=2)
    room = NodeRoom(admission=admission, free=FreeRoom.of(admission.total()), waiting=3, draining=draining)
    back = error_from_wire(error_to_wire(NodeFullError(room)), "node")
    assert isinstance(back, NodeFullError)
    assert (back.room, back.kind, back.retryable) == (room, "node_draining" if draining else "node_full", True)
    assert back.room.free.amount == admission.total()
    unreadable = error_from_wire({"error": {"class": "NodeFullError", "message": "full"}}, "node")
    assert type(unreadable) is SandboxError


@pytest.mark.parametrize(("message", "path"), [("said so", None), ("", "/tmp/\N{SNOWMAN} x"), ("a: b", "")])
def test_errors_of_files_come_back(message: str, path: str | None) -> None:
    for number in errno.errorcode:
        error = OSError(number, message) if path is None else OSError(number, message, path)
        back = error_from_wire(error_to_wire(error), "node")
        assert isinstance(back, OSError)
        assert (type(back), back.errno, back.strerror, back.filename) == (type(error), number, message, path)
        assert str(back) == str(error)


@pytest.mark.parametrize("cls", [FileNotFoundError, IsADirectoryError, PermissionError, OSError])
def test_errors_of_files_without_a_number_come_back(cls: type[OSError]) -> None:
    back = error_from_wire(error_to_wire(cls("said so")), "node")
    assert (type(back), str(back)) == (cls, "said so")


def test_what_is_no_error_of_a_provider_is_the_machines() -> None:
    bodies: list[object] = [None, [], "<html>", {"error": "x"}, {"error": {"kind": "unauthorized", "message": "no"}}]
    for body in bodies:
        assert type(error_from_wire(body, "node")) is SandboxError
    back = error_from_wire(error_to_wire(RecursionError("deep")), "node")
    assert isinstance(back, PaddockError)
    assert back.owner == "us"


def test_an_unknown_kind_of_machine_trouble_stays_the_machines() -> None:
    class OtherError(InfraError):
        pass

    assert type(error_from_wire(error_to_wire(OtherError("down")), "node")) is SandboxError


@given(st.text(max_size=20), st.binary())
def test_bytes_of_paths_go_over_as_surrogates(text: str, stdin: bytes) -> None:
    record = ExecRequest(argv=[text, "\udcff"], env={text: "\ud800"}, stdin=stdin)
    assert wire.decode(ExecRequest, wire.encode(record)) == record


@given(st.text(st.characters(), max_size=20), st.none() | st.integers())
def test_words_of_a_url_come_back(path: str, mode: int | None) -> None:
    words = {"path": path} if mode is None else {"path": path, "mode": str(mode)}
    assert wire.parse_query(wire.query(path=path, mode=mode).removeprefix("?").encode()) == words


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b'{"argv": []}', b'{"argv": ["x"], "more": 1}'])
def test_what_is_no_record_is_refused(body: bytes) -> None:
    with pytest.raises(ValidationError):
        wire.decode(ExecRequest, body)
