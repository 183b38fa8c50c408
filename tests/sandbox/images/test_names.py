"""Claims about names of images: computed from rows as their publishers do, resolved whole, never by likeness."""

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import RowError
from paddock.sandbox.failures import ImageMissing
from paddock.sandbox.images import (
    Dataset,
    ImageSettings,
    ImageSource,
    candidates,
    image_name,
    replace_registry,
    resolve,
)
from paddock.sandbox.images.names import dataset_of, parse_name, rewrites
from paddock.types import JsonObject

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "sha256:" + "ab" * 32


class NameCase(NamedTuple):
    row: JsonObject
    dataset: Dataset | None
    name: str


CASES = {
    "5.x field": NameCase(
        {"instance_id": "a__b-1", "image": "swebench/sweb.eval.x86_64.a_1776_b-1:latest"},
        None,
        "swebench/sweb.eval.x86_64.a_1776_b-1:latest",
    ),
    "4.1 rule": NameCase(
        {"instance_id": "astropy__astropy-12907"},
        "swe_bench",
        "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest",
    ),
    "case": NameCase(
        {"instance_id": "PyCQA__Flake8-1"}, "swe_bench", "swebench/sweb.eval.x86_64.pycqa_1776_flake8-1:latest"
    ),
    "local build": NameCase({"instance_id": "A__b-1"}, "swe_bench_local", "sweb.eval.x86_64.a__b-1:latest"),
    "Lite by its published name": NameCase(
        {"instance_id": "a__b-1", "dataset": "SWE-bench/SWE-bench_Lite"},
        None,
        "swebench/sweb.eval.x86_64.a_1776_b-1:latest",
    ),
    "older Verified": NameCase(
        {"instance_id": "a__b-1", "dataset_name": "princeton-nlp/SWE-bench_Verified"},
        None,
        "swebench/sweb.eval.x86_64.a_1776_b-1:latest",
    ),
    "SWE-Gym": NameCase(
        {"instance_id": "Project-MONAI__MONAI-5", "dataset": "SWE-Gym/SWE-Gym"},
        None,
        "xingyaoww/sweb.eval.x86_64.project-monai_s_monai-5:latest",
    ),
    "SWE-rebench V1": NameCase(
        {"instance_id": "a__b-1", "dataset": "nebius/SWE-rebench"},
        None,
        "swerebench/sweb.eval.x86_64.a_1776_b-1:latest",
    ),
    "SWE-rebench V2": NameCase(
        {"instance_id": "a__b-1", "image_name": "docker.io/swerebenchv2/a-b:1-0abc"}, None, "swerebenchv2/a-b:1-0abc"
    ),
    "R2E-Gym field": NameCase(
        {"docker_image": f"namanjain12/sympy_final:{COMMIT}"}, None, f"namanjain12/sympy_final:{COMMIT}"
    ),
    "R2E-Gym columns": NameCase(
        {"repo_name": "sympy", "commit_hash": COMMIT}, "r2e_gym", f"namanjain12/sympy_final:{COMMIT}"
    ),
    "R2E-Gym id": NameCase(
        {"instance_id": f"aio-libs__aiohttp-{COMMIT}"}, "r2e_gym", f"namanjain12/aiohttp_final:{COMMIT}"
    ),
    "a field wins over the rule": NameCase({"instance_id": "a__b-1", "image_name": "x/y"}, "swe_bench", "x/y:latest"),
    "a digest": NameCase({"image": f"host:5000/x/y@{DIGEST}"}, None, f"host:5000/x/y@{DIGEST}"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_row_has_the_name_that_its_publisher_gives(case: NameCase) -> None:
    row = {"instance_id": "a__b-1", **case.row}
    assert image_name(row, case.dataset, arch="x86_64") == case.name


def test_the_architecture_is_in_the_name() -> None:
    assert (
        image_name({"instance_id": "a__b-1"}, "swe_bench", arch="arm64") == "swebench/sweb.eval.arm64.a_1776_b-1:latest"
    )


@pytest.mark.parametrize(
    ("row", "dataset", "said"),
    [
        ({"instance_id": "a__b-1"}, None, "no dataset"),
        ({"instance_id": "a__b-1"}, "swe_rebench_v2", "has no rule"),
        ({"instance_id": "a__b-1"}, "r2e_gym", "repo_name and commit_hash"),
        ({}, "swe_bench", "instance_id is missing"),
        ({"image": "Not/An Image"}, None, "is no image name"),
        ({"image": "x/../y"}, None, "is no image name"),
        ({"image": "x:bad tag"}, None, "is no tag"),
        ({"image": "x@sha256:12"}, None, "is no digest"),
    ],
)
def test_what_has_no_name_says_what_is_missing(row: JsonObject, dataset: Dataset | None, said: str) -> None:
    with pytest.raises(RowError, match=said):
        image_name(row, dataset)


@pytest.mark.parametrize(
    ("name", "prefix", "replaced"),
    [
        ("swebench/x:latest", "mirror.example/hub", "mirror.example/hub/swebench/x:latest"),
        ("swebench/x", "mirror.example:5000/", "mirror.example:5000/swebench/x:latest"),
        (f"quay.io/a/x@{DIGEST}", "m.example", f"m.example/a/x@{DIGEST}"),
        (f"localhost/a/x:1@{DIGEST}", "m.example", f"m.example/a/x:1@{DIGEST}"),
    ],
)
def test_a_replaced_registry_leaves_namespace_tag_and_digest(name: str, prefix: str, replaced: str) -> None:
    assert replace_registry(name, prefix) == replaced


@given(
    st.from_regex(
        r"[a-z0-9]{1,8}(/[a-z0-9]{1,4}[_.-]{1,2}[a-z0-9]){0,2}(:[A-Za-z0-9][A-Za-z0-9_.-]{0,8})?", fullmatch=True
    )
)
def test_a_written_out_name_is_read_as_itself(text: str) -> None:
    written = str(parse_name(text))
    assert str(parse_name(written)) == str(parse_name(f"docker://{written}")) == written


IDS = st.builds(
    "{}__{}-{}".format,
    st.sampled_from(["a", "ab", "B"]),
    st.sampled_from(["a", "ab", "a-b", "a_s_b", "a_1776_b"]),
    st.integers(1, 130),
)


@settings(deadline=None)
@given(IDS, IDS)
def test_no_id_is_resolved_to_the_file_of_another(wanted: str, other: str) -> None:
    if set(rewrites(wanted)) & set(rewrites(other)):
        return
    settings = ImageSettings(container_formatter=["/sif/{instance_id}.sif", "/more"])
    there = {f"/sif/{form}.sif" for form in rewrites(other)} | {f"/more/x{form}y.sif" for form in rewrites(wanted)}
    with pytest.raises(ImageMissing):
        resolve({"instance_id": wanted}, settings, lambda source: source.location in there)


def test_an_id_does_not_find_the_image_of_a_longer_one(tmp_path: Path) -> None:
    (tmp_path / "django__django-123.sif").touch()
    settings = ImageSettings(container_formatter=str(tmp_path))
    with pytest.raises(ImageMissing) as caught:
        resolve({"instance_id": "django__django-12"}, settings, lambda source: Path(source.location).exists())
    for form in ("django__django-12", "django_1776_django-12", "django_s_django-12"):
        assert str(tmp_path / f"{form}.sif") in str(caught.value)
    found = resolve({"instance_id": "django__django-123"}, settings, lambda source: Path(source.location).exists())
    assert found == ImageSource("django__django-123", str(tmp_path / "django__django-123.sif"))


@pytest.mark.parametrize(
    "file", ["A__B-1", "a__b-1", "A_1776_B-1", "a_1776_b-1", "A_s_B-1", "a_s_b-1"], ids=lambda name: name
)
def test_each_known_rewrite_of_an_id_is_found(file: str) -> None:
    settings = ImageSettings(container_formatter="/d/sweb.eval.x86_64.{instance_id}.sif")
    place = f"/d/sweb.eval.x86_64.{file}.sif"
    row = {"instance_id": "A__B-1", "dataset": "SWE-Gym/SWE-Gym"}
    found = resolve(row, settings, lambda source: source.location == place)
    assert found == ImageSource("xingyaoww/sweb.eval.x86_64.a_s_b-1:latest", place), "whatever the file, one name"


def test_r2e_gym_images_are_found_as_files() -> None:
    settings = ImageSettings(container_formatter="/d/{instance_id}.sif")
    place = f"/d/aiohttp_final_{COMMIT}.sif"
    row = {"instance_id": f"aio-libs__aiohttp-{COMMIT}"}
    assert resolve(row, settings, lambda source: source.location == place).kind == "file"


def test_what_is_here_comes_before_what_must_be_fetched() -> None:
    settings = ImageSettings(
        container_formatter=["docker://m.example/{instance_id}", "/d/{instance_id}.sif"],
        registry="mirror.example",
        dataset="swe_bench",
    )
    tried = candidates({"instance_id": "a__b-1", "image": "x/y:1"}, settings)
    places = [source.location for source in tried]
    assert places[0] == "store:x/y:1"
    assert [source.kind for source in tried] == sorted(
        (source.kind for source in tried), key=["store", "file", "remote"].index
    )
    remote = [source.location for source in tried if source.kind == "remote"]
    assert remote[:3] == [
        "docker://mirror.example/x/y:1",
        "docker://mirror.example/swebench/sweb.eval.x86_64.a_1776_b-1:latest",
        "docker://m.example/a__b-1",
    ]


def test_a_local_build_is_never_looked_up_in_a_registry() -> None:
    tried = candidates({"instance_id": "a__b-1"}, ImageSettings(dataset="swe_bench_local"))
    assert [source.kind for source in tried] == ["store"]


def test_an_id_can_not_lead_out_of_a_folder() -> None:
    with pytest.raises(RowError, match="no name"):
        candidates({"instance_id": "../../etc/x"}, ImageSettings(container_formatter="/d"))


def test_a_formatter_with_another_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"only \{instance_id\}"):
        ImageSettings(container_formatter="/d/{instance}.sif")


def test_a_dataset_is_known_by_its_published_name_alone() -> None:
    assert dataset_of("SWE-bench/SWE-bench_Multilingual") == "swe_bench"
    assert dataset_of("someone/SWE-bench-like") is None
