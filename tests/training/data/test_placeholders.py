"""Claims about `paddock data fill`: rows that point elsewhere become whole ones, or are named."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.cli import main
from paddock.training.data.placeholders import (
    PLACEHOLDER_KEY,
    UnfilledError,
    plain_answer,
    restore_dapo,
    restore_skywork,
)

DAPO, SKYWORK = "super_v3_lcsft_step1000_dapo17k", "super_v3_lcsft_step1000_skyworks"
FRAME = {"prefix": "Solve:\n", "suffix": "\nEnd with \\boxed{}.\n\n"}
TEXTS = st.text()


def source_row(question: str, answer: Any) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": question}], "reward_model": {"ground_truth": answer}, "id": 1}


def placeholder(dataset: str, row: Any, template: Any) -> dict[str, Any]:
    agent = {"type": "responses_api_agents", "name": "math"}
    params = {"input": [], "parallel_tool_calls": False}
    mark = {"row": row, "question_template": template}
    return {"dataset": dataset, "agent_ref": agent, "responses_create_params": params, PLACEHOLDER_KEY: mark}


def write(name: str, *rows: Any) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows))
    return name


def fill(*words: str) -> int:
    return main(["data", "fill", *words])


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of one source and, beside another split, one of the other."""
    monkeypatch.chdir(tmp_path)
    write("dapo/data/1.jsonl", source_row("Frame.\n\nOne?\n\nFrame.", "1"), source_row("Frame.\n\nTwo?\n\nFrame.", "2"))
    write("dapo/data/2.jsonl", source_row("Frame.\n\nThree?\n\nor four?\n\nFrame.", '["3"]'), {"prompt": []})
    write("skywork/data/code-0.jsonl", source_row("def?", "[]"))
    write("skywork/data/math-0.jsonl", source_row("Half?", '["\\\\frac{1}{2}"]'))


def test_filled_rows_keep_their_keys_and_others_their_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    odd = b'{"b": 1.50,  "a": "\\u00e9"}\n'
    talks = {"note": f'of "{PLACEHOLDER_KEY}" rows', "big": 2**70 // 2**10}
    rows = [odd, placeholder(DAPO, 2, FRAME), placeholder(SKYWORK, 0, "Q: {question}!"), talks]
    write("in/rlvr1.jsonl", *rows)
    write("in/swe1.jsonl", odd.rstrip())
    assert fill("in", "--out", "out", "--source", "dapo=dapo", "--source", "skywork=skywork") == 0
    kept, dapo, skywork, same = Path("out/rlvr1.jsonl").read_bytes().splitlines(keepends=True)
    assert kept == odd
    assert json.loads(same) == talks
    assert Path("out/swe1.jsonl").read_bytes() == odd
    prompt = "Solve:\nThree?\n\nor four?\nEnd with \\boxed{}."
    assert json.loads(dapo) == {
        "dataset": DAPO,
        "agent_ref": {"type": "responses_api_agents", "name": "math"},
        "question": prompt,
        "expected_answer": "3",
        "responses_create_params": {"input": [{"role": "user", "content": prompt}], "parallel_tool_calls": False},
    }
    row = json.loads(skywork)
    assert (row["question"], row["expected_answer"]) == ("Half?", "\\frac{1}{2}")
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "Q: Half?!"}]
    assert "1 filled from dapo, 1 filled from skywork, 2 kept, 0 left out" in capsys.readouterr().out


def test_every_row_that_cannot_be_filled_is_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[tuple[Any, str]] = [
        (placeholder("another", 0, FRAME), "dataset: 'another'"),
        (placeholder(DAPO, 4, FRAME), "row 4 is beyond the source's 4 rows"),
        (placeholder(DAPO, -1, FRAME), "got -1"),
        (placeholder(DAPO, None, FRAME), "got None"),
        (placeholder(DAPO, 3, FRAME), "2.jsonl:2: has no text in prompt.0.content"),
        (placeholder(DAPO, 0, "Q: {question}"), "`prefix` and `suffix`"),
        (placeholder(SKYWORK, 0, "no mark"), "{question}"),
        (b'{"%s": {"row": 1}\n' % PLACEHOLDER_KEY.encode(), "no JSON"),
    ]
    good = placeholder(DAPO, 1, FRAME)
    write("in.jsonl", *(row for row, _ in wrong), good)
    assert fill("in.jsonl", "--out", "out", "--source", "dapo=dapo", "--source", "skywork=skywork") == 1
    told = capsys.readouterr().err.splitlines()
    for number, (line, (_, problem)) in enumerate(zip(told, wrong, strict=True), 1):
        assert line.startswith(f"paddock data: in.jsonl:{number}: ") and problem in line
    (row,) = Path("out/in.jsonl").read_bytes().splitlines()
    assert json.loads(row)["expected_answer"] == 2


def test_a_source_that_is_needed_and_not_named_stops_all(capsys: pytest.CaptureFixture[str]) -> None:
    write("in.jsonl", {"a": 1}, placeholder(DAPO, 0, FRAME))
    assert fill("in.jsonl", "--out", "out") == 2
    assert "--source dapo=PLACE" in capsys.readouterr().err
    assert not Path("out").exists()
    assert fill("in.jsonl", "--out", "out", "--source", "wiki=dapo") == 2
    assert fill("in.jsonl", "--out", ".", "--source", "dapo=dapo") == 2
    write("other/in.jsonl", {"a": 1})
    assert fill("in.jsonl", "other", "--out", "out", "--source", "dapo=dapo") == 2
    assert not Path("out").exists()


def test_a_source_that_cannot_be_read_leaves_all_as_it_was() -> None:
    write("in.jsonl", placeholder(DAPO, 9, FRAME))
    write("out/in.jsonl", {"of": "another day"})
    Path("dapo/data/3.parquet").write_bytes(b"no table")
    assert fill("in.jsonl", "--out", "out", "--source", "dapo=dapo") == 2
    assert [path.name for path in Path("out").iterdir()] == ["in.jsonl"]
    assert Path("out/in.jsonl").read_bytes() == b'{"of":"another day"}\n'


@settings(max_examples=30)
@given(TEXTS, st.lists(TEXTS.filter(lambda text: "\n" not in text), min_size=1), TEXTS)
def test_the_sources_frame_is_taken_off_and_no_more(frame: str, blocks: list[str], suffix: str) -> None:
    frame = frame.replace("\n", " ")
    inner = "\n\n".join(blocks)
    restored = restore_dapo(f"{frame}\n\n{inner}\n\n{frame}", {"prefix": "P ", "suffix": suffix})
    assert restored == f"P {inner}{suffix}".rstrip("\n")


@settings(max_examples=30)
@given(TEXTS)
def test_a_question_is_put_in_as_it_is(question: str) -> None:
    assert restore_skywork(question, "a {question} b") == f"a {question} b"


@pytest.mark.parametrize("template", [None, [], {}, {"other": "x"}, 3])
def test_a_template_that_says_nothing_is_refused(template: Any) -> None:
    with pytest.raises(UnfilledError):
        restore_dapo("a\n\nb\n\nc", template)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=30)
@given(JSON)
def test_an_answer_comes_out_of_its_json(value: Any) -> None:
    expected = value
    if isinstance(value, list) and value:
        expected = value[0]
    elif isinstance(value, dict) and value:
        expected = next(iter(value.values()))
    assert plain_answer(json.dumps(value)) == expected


@pytest.mark.parametrize("text", ["NaN", "1e999", "-Infinity", "x^2", "", "1/2", "(3, 4)"])
def test_an_answer_that_is_no_json_stays_text(text: str) -> None:
    assert plain_answer(text) == text
