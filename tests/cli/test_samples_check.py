"""Claims about `paddock samples check`: what is accepted, what is refused and where, mistakes."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.cli.test_samples import BRANCHED, WITHOUT_IDS, attempt, line, turn

from paddock.cli import main
from paddock.http import rollout_from_wire
from paddock.tokens import inline

ONE = [turn("1", None, [1, 2], [3]), turn("2", "1", [4], [5])]


def group(turns: Any = ONE, **known: Any) -> list[bytes]:
    """Lines of rollouts."""
    return [line(member, turns=turns, **known) for member in range(4)]


def in_lines(rollouts: list[bytes]) -> list[Any]:
    return [inline(rollout_from_wire(orjson.loads(one))) for one in rollouts]


def stored(folder: Path, lines: list[Any]) -> Path:
    path = folder / "rollouts.jsonl"
    path.write_bytes(b"".join(one if isinstance(one, bytes) else orjson.dumps(one) + b"\n" for one in lines))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int) -> list[str]:
    assert main(["samples", "check", *map(str, arguments)]) == code
    return capsys.readouterr().out.splitlines()


def test_a_run_a_file_of_it_and_a_file_of_inline_lines_are_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollouts = [*group(BRANCHED)[:3], line(3, "infra")]
    expected = ["masked: 1 infra", "4 results, 1 of them masked: accepted"]
    file = stored(tmp_path, rollouts)
    assert said(capsys, tmp_path, code=0) == said(capsys, file, code=0) == expected
    out = tmp_path / "inline.jsonl"
    assert main(["samples", str(file), "--inline", "--all", "--out", str(out)]) == 0
    capsys.readouterr()
    assert said(capsys, out, code=0) == expected


def test_a_broken_rule_is_named_with_its_line_item_turn_and_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = in_lines(group())
    lines[1]["response"]["output"][1]["prompt_token_ids"][2] = 9
    lines[2]["reward"] = None
    file = stored(tmp_path, [lines[0], b"\n", *lines[1:]])
    place = f"{file}:3: contiguous (item 1, turn 1, token 2)"
    assert said(capsys, file, code=1) == [
        f"{place}: the prompt has 9 where 3 was seen before (the rollouts of its batch are lost)",
        f"{file}:4: reward: it is None; a rollout without a reward is masked and has 0 (the batch is lost)",
        "4 results, 0 of them masked: 2 refused: 1 contiguous, 1 reward",
    ]


def test_what_is_wrong_between_lines_comes_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = [turn("1", None, [1, 9], [3])]
    file = stored(tmp_path, [*group()[:3], line(3, turns=other)])
    wrong = "it is not its group's first prompt (it would train on something else, silently)"
    assert said(capsys, file, code=1) == [
        f"{file}:4: group_prompt (token 1): {wrong}",
        "4 results, 0 of them masked: 1 refused: 1 group_prompt",
    ]


def test_a_recipe_s_values_are_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = stored(tmp_path, [*group()])
    assert said(capsys, file, "--max-total-sequence-length", 5, "--vocabulary-size", 6, code=0)
    flags: dict[str, list[object]] = {
        "4 too_long": ["--max-total-sequence-length", 4],
        "4 known_ids": ["--vocabulary-size", 5],
        "8 routed_experts": ["--require-routed-experts"],
    }
    for count, given in flags.items():
        assert said(capsys, file, *given, code=1)[-1].endswith(f": 4 refused: {count}")
    sampled = [{**one, "responses_create_params": {"input": [], "temperature": 0.6}} for one in in_lines(group())]
    assert "4 sampling" in said(capsys, stored(tmp_path, sampled), "--temperature", 1, code=1)[-1]


def test_many_findings_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{**in_lines([line(member)])[0], "reward": None, "_paddock_group_size": 150} for member in range(150)]
    found = said(capsys, stored(tmp_path, lines), code=1)
    assert len(found) == 102
    assert found[-2:] == ["... and 50 more", "150 results, 0 of them masked: 150 refused: 150 reward"]


def test_where_all_is_masked_nothing_is_trained_on_and_the_reason_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stored(tmp_path, group(WITHOUT_IDS, engine="text"))
    assert said(capsys, file, code=3) == [
        "masked: 4 no_trainable_turn",
        "turns of those without one to train on: 4 engine_text",
        "engine_text: the endpoint gives no token ids; those of models_servers/vllm are exact",
        "4 results, 4 of them masked: accepted",
    ]


def test_a_member_that_failed_and_has_no_line_is_not_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = stored(tmp_path, group()[:3])
    assert "1 group_complete" in said(capsys, tmp_path, code=1)[-1]
    (tmp_path / "failures.jsonl").write_bytes(attempt(3, "infra") + attempt(0, "infra"))
    assert said(capsys, tmp_path, code=0) == ["3 results, 0 of them masked: accepted"]
    assert "1 group_complete" in said(capsys, file, code=1)[-1]


def test_a_torn_last_line_has_not_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollouts = group()
    file = stored(tmp_path, [*rollouts[:3], rollouts[3][:-20]])
    assert said(capsys, file, code=1) == [
        f"{file}:1: group_complete: 3 of 4 members are there (the batch is lost)",
        "the last line was torn: its rollout had not ended",
        "3 results, 0 of them masked: 1 refused: 1 group_complete",
    ]


def test_mistakes_are_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = stored(tmp_path, [*group()])
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(line(0) + b"{\n")
    none = tmp_path / "none.jsonl"
    none.write_bytes(b'{"rollout": {}}\n')
    mistakes: list[tuple[list[object], str]] = [
        (["check", tmp_path / "nothing"], "nothing: no such folder or file"),
        (["check", broken], "broken.jsonl:2: no JSON"),
        (["check", none], "none.jsonl:1: no line of this file"),
        (["check", file, "--overlong-filtering"], "max_total_sequence_length"),
        (["check", file, "--top-p", "2"], "top_p"),
        ([file, file], "one folder or file is read, not 2"),
        (["check", file, file], "one folder or file is read, not 3"),
        (["check"], "check: no such folder or file"),
    ]
    for arguments, why in mistakes:
        assert main(["samples", *map(str, arguments)]) == 2
        assert why in capsys.readouterr().err
