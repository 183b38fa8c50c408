"""Claims about `paddock data download`: the hub's real client against a hub on loopback."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli import main
from paddock.training.data.hub import RECORD
from paddock.training.data.testing import CutConnection, ScriptedHub, scripted_hub

# Before any output is captured: its log has the stderr of the moment when it was imported.
pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: install paddock[data]")

REPO = "people/rows"
SMALL, LARGE = b'{"row": 1}\n', b'{"row": "%s"}\n' % (b"x" * 200_000)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedHub]:
    with scripted_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.chdir(tmp_path)
        yield hub


def download(*words: str) -> int:
    return main(["data", "download", *words])


def record() -> dict[str, object]:
    found: dict[str, object] = json.loads(Path("out", RECORD).read_text())
    return found


def test_chosen_files_of_one_commit_with_their_hashes(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> None:
    sha = hub.commit(REPO, {"data/a.jsonl": SMALL, "data/b.jsonl": LARGE, "README.md": b"of no use"})
    assert download(REPO, "--file", "data/*.jsonl", "--out", "out") == 0
    assert Path("out/data/a.jsonl").read_bytes() == SMALL
    assert Path("out/data/b.jsonl").read_bytes() == LARGE
    assert not Path("out/README.md").exists()
    told = capsys.readouterr().out
    digest = hashlib.sha256(LARGE).hexdigest()
    assert sha in told and digest in told and f"{len(LARGE)} bytes" in told
    assert record()["commit"] == sha
    assert record()["files"] == {
        "data/a.jsonl": {"bytes": len(SMALL), "sha256": hashlib.sha256(SMALL).hexdigest()},
        "data/b.jsonl": {"bytes": len(LARGE), "sha256": digest},
    }


def test_after_a_failure_the_same_command_goes_on_with_the_same_commit(
    hub: ScriptedHub, capsys: pytest.CaptureFixture[str]
) -> None:
    sha = hub.commit(REPO, {"a.jsonl": LARGE, "b.jsonl": SMALL})
    hub.faults["b.jsonl"] = [403]
    assert download(REPO, "--file", "*.jsonl", "--out", "out") == 1
    assert "b.jsonl" in capsys.readouterr().err
    assert not Path("out/b.jsonl").exists()
    hub.commit(REPO, {"a.jsonl": b"of another day", "b.jsonl": b"of another day"})
    assert download(REPO, "--file", "*.jsonl", "--out", "out") == 0
    assert Path("out/b.jsonl").read_bytes() == SMALL
    assert len(hub.downloads("a.jsonl")) == 1
    assert record()["commit"] == sha


def test_a_branch_that_is_named_anew_is_what_it_is_now(hub: ScriptedHub) -> None:
    first = hub.commit(REPO, {"a.jsonl": SMALL})
    assert download(REPO, "--file", "*.jsonl", "--revision", first, "--out", "out") == 0
    second = hub.commit(REPO, {"a.jsonl": LARGE})
    assert download(REPO, "--file", "*.jsonl", "--revision", "main", "--out", "out") == 0
    assert Path("out/a.jsonl").read_bytes() == LARGE
    assert record()["commit"] == second


@pytest.mark.slow
def test_a_broken_transfer_goes_on_where_it_broke(hub: ScriptedHub) -> None:
    chunk = 10 << 20  # what the client writes at once
    body = b"01234567" * (chunk // 8 + 50_000)
    hub.commit(REPO, {"b.jsonl": body})
    hub.faults["b.jsonl"] = [CutConnection(chunk + 1000)]
    assert download(REPO, "--file", "b.jsonl", "--out", "out") == 0
    assert Path("out/b.jsonl").read_bytes() == body
    assert [one.range for one in hub.downloads("b.jsonl")] == [None, f"bytes={chunk}-"]


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["git's hash", "sha256"])
def test_other_bytes_than_the_hub_lists_are_no_file(
    hub: ScriptedHub, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    hub.commit(REPO, {"a.jsonl": body})
    hub.wrong.add("a.jsonl")
    assert download(REPO, "--file", "a.jsonl", "--out", "out") == 1
    assert "other bytes" in capsys.readouterr().err
    assert not Path("out/a.jsonl").exists()
    assert record()["files"] == {}


def test_a_file_that_was_changed_here_is_fetched_again(hub: ScriptedHub) -> None:
    hub.commit(REPO, {"a.jsonl": LARGE})
    assert download(REPO, "--file", "a.jsonl", "--out", "out") == 0
    Path("out/a.jsonl").write_bytes(LARGE[:-2])
    assert download(REPO, "--file", "a.jsonl", "--out", "out") == 0
    assert Path("out/a.jsonl").read_bytes() == LARGE


def test_the_token_comes_from_the_environment(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit(REPO, {"a.jsonl": SMALL})
    hub.token = "hf_mine"
    assert download(REPO, "--file", "a.jsonl", "--out", "out") == 2
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    assert download(REPO, "--file", "a.jsonl", "--out", "out") == 0
    assert "hf_mine" not in Path("out", RECORD).read_text()


def test_what_is_not_there_is_named(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.commit(REPO, {"a.jsonl": SMALL})
    for words, named in (
        ([REPO, "--file", "b.jsonl"], "b.jsonl; there are: a.jsonl"),
        ([REPO, "--file", "a.jsonl", "--revision", "v9"], "no revision 'v9'"),
        (["people/nothing", "--file", "a.jsonl"], "people/nothing"),
        (["super"], "nvidia/Nemotron-3-Super-RL-Training-Blends"),
        ([REPO], "--file"),
        (["rows"], "'rows'"),
    ):
        assert download(*words, "--out", "out") == 2
        assert named in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_holds_files_of_one_repository(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.commit(REPO, {"a.jsonl": SMALL})
    hub.commit("people/others", {"a.jsonl": LARGE})
    assert download(REPO, "--file", "a.jsonl", "--out", "out") == 0
    assert download("people/others", "--file", "a.jsonl", "--out", "out") == 2
    assert REPO in capsys.readouterr().err
    assert Path("out/a.jsonl").read_bytes() == SMALL


def test_a_blend_by_its_short_name(hub: ScriptedHub) -> None:
    names = ["rlvr1", "rlvr2", "rlvr3", "swe1", "swe2", "rlhf"]
    files = {f"{name}.jsonl": SMALL for name in names}
    hub.commit("nvidia/Nemotron-RL-Super-Training-Blends", {**files, "fill_placeholders.py": b"print()"})
    assert download("super", "--out", "out") == 0
    assert sorted(path.name for path in Path("out").glob("*.*") if path.is_file()) == sorted([*files, RECORD])
