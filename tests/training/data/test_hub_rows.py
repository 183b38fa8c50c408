"""Claims about rows that are named by their data set on a hub, with the hub's real client against one on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli import main
from paddock.cli.hub_rows import local_files
from paddock.errors import ConfigError
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.training.data.testing import ScriptedHub, scripted_hub

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: install paddock[data]")
REPO = "people/rows"
ROW = json.dumps({"responses_create_params": {"input": "q"}, "answer": "yes"}).encode() + b"\n"


@pytest.fixture
def rows_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedHub]:
    with scripted_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        yield hub


def test_an_evaluation_runs_over_a_data_set_by_its_name(rows_hub: ScriptedHub, tmp_path: Path) -> None:
    rows_hub.commit(REPO, {"a.jsonl": ROW * 2, "b.jsonl": ROW, "README.md": b"of no use"})
    assert main(["init", "environment", "said"]) == 0
    (tmp_path / "said" / "rows.jsonl").unlink()
    words = ["eval", "said/said.yaml", "--rows", f"hf:{REPO}", "--oracle", "--quiet", "--out", "run"]
    assert main(words) == 0
    lines = (tmp_path / "run" / "rollouts.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["reward"] for line in lines] == [1.0] * 3


def test_the_files_stay_those_of_the_commit_and_are_not_fetched_again(rows_hub: ScriptedHub) -> None:
    rows_hub.commit(REPO, {"a.jsonl": ROW})
    (first,) = local_files([f"hf:{REPO}"])
    rows_hub.commit(REPO, {"a.jsonl": ROW * 9})
    assert local_files([f"hf:{REPO}", "mine.jsonl"]) == [first, "mine.jsonl"]
    assert Path(first).read_bytes() == ROW
    assert len(rows_hub.downloads("a.jsonl")) == 1


def test_a_run_is_resumed_with_its_own_files_where_no_hub_answers(
    rows_hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows_hub.commit(REPO, {"a.jsonl": ROW, "b.jsonl": ROW * 2})
    assert main(["init", "environment", "resumed"]) == 0
    (tmp_path / "resumed" / "rows.jsonl").unlink()
    words = ["eval", "resumed/resumed.yaml", "--rows", f"hf:{REPO}:b*", "--oracle", "--quiet", "--out", "run"]
    assert main([*words, "--rows", f"hf:{REPO}:a*"]) == 0
    before = (tmp_path / "run" / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / "rollouts.jsonl").write_bytes(b"".join(before[:1]))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert main(words[:-2]) == 2, "a new run asks the hub"
    assert main([*words, "--rows", f"hf:{REPO}:a*", "--resume"]) == 0
    assert len((tmp_path / "run" / "rollouts.jsonl").read_bytes().splitlines()) == 3


def test_a_revision_and_a_file_are_chosen(rows_hub: ScriptedHub) -> None:
    old = rows_hub.commit(REPO, {"data/a.jsonl": ROW, "data/b.jsonl": ROW * 2})
    rows_hub.commit(REPO, {"data/a.jsonl": ROW * 3})
    (file,) = local_files([f"hf:{REPO}@{old}:data/b.jsonl"])
    assert Path(file).read_bytes() == ROW * 2


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("hf:rows", "hf:OWNER/NAME"),
        ("hf:../../etc/passwd", "hf:OWNER/NAME"),
        ("hf:people/none", "people/none"),
        (f"hf:{REPO}:none*.jsonl", "none"),
    ],
)
def test_what_is_not_there_is_said(rows_hub: ScriptedHub, word: str, message: str) -> None:
    rows_hub.commit(REPO, {"a.jsonl": ROW})
    with pytest.raises(ConfigError, match=message):
        local_files([word])


def test_a_hub_that_fails_is_a_mistake_that_may_pass(rows_hub: ScriptedHub) -> None:
    rows_hub.commit(REPO, {"a.jsonl": ROW})
    rows_hub.faults["a.jsonl"] = [403]
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        local_files([f"hf:{REPO}"])
    assert len(local_files([f"hf:{REPO}"])) == 1
