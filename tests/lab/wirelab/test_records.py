"""Claims about records as files: what is read is what was written, byte for byte when it is written again; a file that
is none is refused with its name."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.lab.wirelab import (
    RecordedRequest,
    ScenarioRecord,
    WireRecord,
    dump_record,
    read_record,
    record_file,
    write_record,
)
from paddock.lab.wirelab.records import merge_repeats

SMALL = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0]) | st.sampled_from(["a", "b", "kept"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.none() | st.dictionaries(st.sampled_from(["input", "model", "tools"]), st.lists(SMALL, max_size=4) | SMALL)
REQUESTS = st.builds(
    RecordedRequest,
    method=st.just("POST"),
    path=st.sampled_from(["/v1/responses", "/v1/messages"]),
    headers=st.lists(st.sampled_from(["host", "x-id"]), max_size=2),
    body=BODIES.map(lambda body: body and dict(sorted(body.items()))),
    times=st.integers(1, 3),
)
RUNS = st.builds(ScenarioRecord, ended=st.just({"ended": "finished"}), requests=st.lists(REQUESTS, max_size=4))
RECORDS = st.builds(
    WireRecord,
    program=st.just("toy"),
    version=st.just("1.0"),
    dialect=st.just("chat"),
    runs=st.dictionaries(st.sampled_from(["one", "two"]), RUNS, max_size=2),
)


@settings(max_examples=40)
@given(record=RECORDS)
def test_what_was_written_is_read(record: WireRecord, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = record_file(tmp_path_factory.getbasetemp() / "toy", "1.0", "chat")
    write_record(record, file)
    again = read_record(file)
    assert again == record
    assert dump_record(again) == file.read_text() == dump_record(record)


def request(body: Any, times: int = 1) -> dict[str, Any]:
    return {"method": "POST", "path": "/v1/responses", "headers": [], "body": body, "times": times}


def test_a_request_that_comes_again_in_a_row_is_counted() -> None:
    found = merge_repeats([request("a"), request("a"), request("b"), request("a")])
    assert [(one.body, one.times) for one in found] == [("a", 2), ("b", 1), ("a", 1)]


def test_a_long_history_is_told_once() -> None:
    history = [{"role": "user", "content": "x" * 1000}] * 50
    run = ScenarioRecord(
        ended={}, requests=[RecordedRequest.model_validate(request({"input": history[:n]})) for n in range(1, 50)]
    )
    record = WireRecord(program="toy", version="1.0", dialect="responses", runs={"one": run})
    assert len(dump_record(record)) < 2 * 50 * 1000


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"runs": 1}', '{"runs": {"one": {"requests": [1], "ended": {}}}}'])
def test_a_file_that_is_no_record_is_refused_by_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "1.0.chat.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"1\.0\.chat\.json"):
        read_record(file)


def test_a_record_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "0.9.chat.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"1\.0\.chat\.json.*there are 0\.9\.chat\.json"):
        read_record(tmp_path / "1.0.chat.json")
