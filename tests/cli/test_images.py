"""Claims about `paddock images`: what it does is on stdout, what it could not do on stderr with its exit code."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.published_rows import swe_bench_row
from tests.support.images import (
    CutBody,
    RetryLater,
    ScriptedRegistry,
    TarEntry,
    make_image,
    make_layer,
    scripted_registry,
)

from paddock.cli import main
from paddock.types import JsonObject


class ImagesOutput(NamedTuple):
    code: int
    out: str
    err: str


Images = Callable[..., ImagesOutput]


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Images:
    """Run `paddock images ...` in a home of its own."""
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> ImagesOutput:
        capfd.readouterr()
        try:
            code = main(["images", *arguments])
        except SystemExit as exit:
            code = int(exit.code or 0)
        return ImagesOutput(code, *capfd.readouterr())

    return run


@pytest.fixture
def registry() -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        yield registry


def write_rows(*rows: JsonObject) -> str:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "rows.jsonl"


def test_names_of_rows_are_printed_once_each(images: Images) -> None:
    inner = json.dumps({"instance_id": "c__d-2", "image_name": "x/y"})
    rows = write_rows(
        {"instance_id": "a__b-1", "dataset": "SWE-Gym/SWE-Gym"},
        {"instance_id": "a__b-1", "dataset": "SWE-Gym/SWE-Gym"},
        {"responses_create_params": {"metadata": {"instance_dict": inner}}},
        {"instance_id": "e__f-3"},
    )
    said = images("names", "--rows", rows)
    assert said.out.split() == ["xingyaoww/sweb.eval.x86_64.a_s_b-1:latest", "x/y:latest"]
    assert said.code == 1
    assert "e__f-3" in said.err
    assert images("names", "--rows", rows, "--dataset", "swe_bench").code == 0


def test_rows_are_pulled_and_each_fails_alone(images: Images, registry: ScriptedRegistry) -> None:
    registry.images["hub/swebench/sweb.eval.x86_64.a_1776_b-1:latest"] = make_image([make_layer([TarEntry("a", b"1")])])
    rows = write_rows({"instance_id": "a__b-12"}, {"instance_id": "a__b-1"})
    flags = ("--rows", rows, "--dataset", "swe_bench", "--registry", f"{registry.host}/hub")
    said = images("pull", *flags)
    assert (said.code, said.out.split()) == (1, ["swebench/sweb.eval.x86_64.a_1776_b-1:latest"])
    assert "sweb.eval.x86_64.a_1776_b-12:latest" in said.err
    listed = images("list")
    assert "swebench/sweb.eval.x86_64.a_1776_b-1:latest" in listed.out
    assert "1 images, 1 layers" in listed.out

    asked = len(registry.requests)
    assert images("pull", *flags, "--limit", "2").code == 1
    assert len([one for one in registry.requests[asked:] if "b-1:" in one.path]) == 0, "what is here is not asked for"


def test_a_formatter_is_tried_before_a_registry_and_by_whole_names(images: Images, tmp_path: Path) -> None:
    for name in ("a__b-123", "a_1776_b-1"):
        (tmp_path / "here" / name / "etc").mkdir(parents=True)
        (tmp_path / "here" / name / "etc" / "id").write_text(name)
    rows = write_rows({"instance_id": "a__b-1", "dataset": "SWE-bench/SWE-bench"})
    said = images("pull", "--rows", rows, "--formatter", str(tmp_path / "here" / "{instance_id}"))
    assert (said.code, said.out.split()) == (0, ["swebench/sweb.eval.x86_64.a_1776_b-1:latest"])
    (tree,) = (tmp_path / "home" / "layers").glob("*/fs/etc/id")
    assert tree.read_text() == "a_1776_b-1"


def test_an_image_is_converted_listed_removed_and_pruned(images: Images, registry: ScriptedRegistry) -> None:
    registry.images["t/x:v1"] = make_image([make_layer([TarEntry("a", b"1")])])
    said = images("convert", f"docker://{registry.host}/t/x:v1", "mine")
    assert (said.code, said.out) == (0, "mine\n")
    assert re.fullmatch(r"mine: \d+\.\d s\n", said.err)
    assert f"registry={registry.host}/t/x:v1" in images("list").out
    assert images("remove", "mine").code == 0
    removed = images("remove", "mine")
    assert (removed.code, "no image 'mine'" in removed.err) == (1, True)
    assert "2 downloads" in images("prune").out
    assert "0 images, 0 layers" in images("list").out


def test_an_image_is_within_the_limits_of_the_command(images: Images, registry: ScriptedRegistry) -> None:
    registry.images["t/x:v1"] = make_image([make_layer([TarEntry("a", bytes(2 << 20))])])
    source = f"docker://{registry.host}/t/x:v1"
    said = images("convert", source, "mine", "--unpacked-mib", "1")
    assert said.code == 1
    assert re.search(r"the image may have 1 MiB.*--unpacked-mib N", said.err)
    assert images("convert", source, "mine", "--unpacked-mib", "0").code == 2
    assert images("convert", source, "mine", "--unpacked-mib", "3").code == 0


def test_an_image_that_no_field_names_is_named_as_an_evaluation_reads_the_row(images: Images) -> None:
    rows = write_rows(swe_bench_row())
    named = "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest\n"
    assert images("names", "--rows", rows) == ImagesOutput(0, named, "")
    said = images("names", "--rows", write_rows(swe_bench_row(repo="x/y")))
    assert said.code == 1
    assert "names no image" in said.err
    assert "add `test_cmd` and `log_parser`" in said.err


def test_an_image_that_the_row_names_only_when_it_is_read_is_pulled(images: Images, registry: ScriptedRegistry) -> None:
    registry.images["hub/swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"] = make_image([])
    said = images("pull", "--rows", write_rows(swe_bench_row()), "--registry", f"{registry.host}/hub")
    assert (said.code, said.out) == (0, "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest\n")


def test_a_row_that_can_not_be_read_does_not_stop_the_others(images: Images, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "locks").touch()  # the store can make nothing: the build ends as it begins
    recipe = {"python": "3.11", "git": {"repository": "https://a.example/b", "commit": "abc"}}
    said = images("build", "--rows", write_rows({"instance_id": "a__b-1"}, swe_bench_row(paddock=recipe)))
    assert said.code == 1
    assert "a__b-1: row: of no known form" in said.err
    assert "paddock images: pallets__flask-1: [Errno 20] Not a directory" in said.err, "it was tried"


@pytest.mark.slow
def test_what_workers_can_not_build_is_said_as_by_one_process(images: Images, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "locks").touch()  # as above
    recipe = {"python": "3.11", "git": {"repository": "/nowhere", "commit": "abc"}}
    remote = {"python": "3.11", "git": {"repository": "https://a.example/b", "commit": "abc"}}
    rows = write_rows(swe_bench_row(paddock=recipe), swe_bench_row(instance_id="a__b-1", paddock=remote))
    alone, together = images("build", "--rows", rows), images("build", "--rows", rows, "--workers", "2")
    assert (alone.code, together.code) == (1, 1)
    assert sorted(together.err.splitlines()) == sorted(alone.err.splitlines())
    assert "git.repository: '/nowhere' " in alone.err and "[Errno 20] Not a directory" in alone.err


@pytest.mark.slow
def test_pins_without_hashes_are_said_or_refused(images: Images, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "locks").touch()  # as above
    recipe = {"python": "3.11", "git": {"repository": "https://a.example/b", "commit": "abc"}, "pip": ["a==1"]}
    hashed = {**recipe, "pip": ["a==1 --hash=sha256:" + "0" * 64]}
    told = "paddock images: mine: the recipe's pins have no hashes: "
    for made, flags, words in (
        (recipe, (), told + "what comes is what the package index has now\npaddock images: mine: [Errno 20]"),
        (
            recipe,
            ("--require-hashes",),
            "paddock images: mine: mine: the recipe's pins have no hashes, which are required",
        ),
        (hashed, ("--require-hashes",), "paddock images: mine: [Errno 20]"),
    ):
        Path("recipe.json").write_text(json.dumps(made))
        said = images("build", "recipe.json", "--name", "mine", *flags)
        assert said.code == 1 and said.err.startswith(words)


@pytest.mark.slow
def test_a_repository_of_this_machine_is_read_where_the_command_allows_it(images: Images, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "locks").touch()  # as above
    for place in ("folder", "file:///folder"):
        recipe = {"python": "3.11", "git": {"repository": place, "commit": "abc"}}
        said = images("build", "--rows", write_rows(swe_bench_row(paddock=recipe)))
        assert (said.code, said.out) == (1, "")
        assert f"pallets__flask-1: git.repository: {place!r} " in said.err
        assert "--local-repository FOLDER" in said.err
        Path("recipe.json").write_text(json.dumps(recipe))
        said = images("build", "recipe.json", "--name", "mine")
        assert f"mine: git.repository: {place!r} " in said.err, "a file may come from anywhere"
        said = images("build", "recipe.json", "--name", "mine", "--local-repository", "/")
        assert "mine: [Errno 20] Not a directory" in said.err, "it was tried"


def test_rows_without_a_recipe_are_told_where_one_stands(images: Images) -> None:
    said = images("build", "--rows", write_rows(swe_bench_row()))
    assert (said.code, said.out) == (2, "")
    for word in ("`build` of a row of the own format", "`paddock` of any other", "python", "sdist_sha256", "git"):
        assert word in said.err
    said = images("build", "--rows", write_rows(swe_bench_row(build={"python": "3.11"})))
    assert "build: a recipe of a row of the own format; in a row of this form the key is `paddock`" in said.err


MISTAKES = {
    "nothing to pull": (["pull"], "name images, or rows"),
    "no rows": (["names", "--rows", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
    "rows that are none": (["names", "--rows", "bad.jsonl"], "bad.jsonl:2: no row"),
    "no such dataset": (["names", "--rows", "good.jsonl", "--dataset", "swe"], "known are swe_bench"),
    "a name that is none": (["pull", "Not/AName"], "is no image name"),
    "a prefix that is none": (["pull", "x/y", "--registry", "http://m.example"], "is no image name"),
    "no jobs": (["pull", "x/y", "--jobs", "0"], "--jobs needs 1 or more"),
    "formatter": (["pull", "--rows", "good.jsonl", "--formatter", "/d/{id}"], "only {instance_id}"),
    "no recipe": (["build"], "name a recipe's file"),
    "recipe without a name": (["build", "recipe.yaml"], "--name NAME"),
    "wrong recipe": (["build", "recipe.yaml", "--name", "x"], "needs exactly one of sdist and git"),
    "no such local repositories": (
        ["build", "recipe.yaml", "--name", "x", "--local-repository", "nowhere"],
        "--local-repository nowhere: no such folder",
    ),
    "a build without processes": (["build", "recipe.yaml", "--name", "x", "--build-pids", "0"], "build_pids"),
    "rows without a recipe": (["build", "--rows", "good.jsonl"], "good.jsonl: "),
    "no sub-command": ([], "required: COMMAND"),
    "unknown sub-command": (["pul"], "invalid choice: 'pul'"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_said_before_anything_starts(arguments: list[str], message: str, images: Images) -> None:
    Path("good.jsonl").write_text('{"instance_id": "a__b-1"}\n')
    Path("bad.jsonl").write_text('{"instance_id": "a__b-1"}\n[1]\n')
    Path("recipe.yaml").write_text("python: '3.11'\n")
    said = images(*arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_a_store_that_can_not_be_written_is_said(images: Images, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = images("pull", "x/y", "--home", str(tmp_path / "file" / "home"))
    assert (said.code, said.out) == (1, "")
    assert "Not a directory" in said.err


@pytest.mark.slow
@pytest.mark.cli
def test_an_interrupted_pull_keeps_what_it_fetched(images: Images, registry: ScriptedRegistry, tmp_path: Path) -> None:
    image = make_image([make_layer([TarEntry("a", os.urandom(3_000_000))])])
    registry.images["t/x:v1"] = image
    registry.faults[image.layers[0]] = [CutBody(1_000_000), RetryLater(100)]
    name = f"{registry.host}/t/x:v1"
    command = [sys.executable, "-m", "paddock", "images", "pull", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pull:
        blobs, deadline = tmp_path / "home" / "blobs" / "sha256", time.monotonic() + 60
        while sum(path.stat().st_size for path in blobs.glob("*.partial")) < 1_000_000:
            assert pull.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        pull.send_signal(signal.SIGINT)
        assert pull.communicate(timeout=60) == (b"", b"")
    assert pull.returncode == 130
    assert "0 images" in images("list").out
    registry.faults.clear()
    said = images("pull", name)
    assert (said.code, said.out) == (0, f"{name}\n")
    (layer,) = image.layers
    assert registry.sent[f"/v2/t/x/blobs/{layer}"] == len(image.blobs[layer]), "no byte twice"
