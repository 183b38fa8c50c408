"""Names of images, computed from rows: pure, exact, nothing is looked up.

Source  a row's own field (`image`, `image_name`, `docker_image`); without one, the rule of its dataset:
          swe_bench         swebench/sweb.eval.<arch>.<id>            `__` -> `_1776_`, lower case (4.1 and 5.x)
          swe_bench_local   sweb.eval.<arch>.<id>                     lower case: built here, without a namespace
          swe_gym           xingyaoww/sweb.eval.<arch>.<id>           `__` -> `_s_`, lower case
          swe_rebench       swerebench/sweb.eval.<arch>.<id>          `__` -> `_1776_`, lower case
          r2e_gym           namanjain12/<repo_name>_final:<commit>    the id is `org__repo-commit` where it has one
          swe_bench_live    starryzhang/sweb.eval.<arch>.<id>         `__` -> `_1776_`, lower case
          swe_bench_pro     jefzda/sweap-images:<dockerhub_tag>
          multi_swe         mswebench/<org>_m_<repo>:pr-<number>      lower case
          swe_smith         swebench/swesmith.<arch>.<id>             `__` -> `_1776_`, lower case, without the suffix
        swe_rebench_v2 has no rule: its rows say `image_name`.
Names   are written out: without `docker://` and `docker.io/`, always with a tag or a digest.
Errors  RowError names the key that is missing.
"""

import platform
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from paddock.errors import RowError
from paddock.types import Json

Dataset = Literal[
    "swe_bench",
    "swe_bench_local",
    "swe_gym",
    "swe_rebench",
    "swe_rebench_v2",
    "r2e_gym",
    "swe_bench_live",
    "swe_bench_pro",
    "multi_swe",
    "swe_smith",
]
DATASETS: tuple[Dataset, ...] = get_args(Dataset)
FIELDS = ("image", "image_name", "docker_image")
"""Fields of a row that name its image, the first that is there counts."""

_COMMIT_ID = re.compile(r"(?P<owner>.+?)__(?P<repo>.+)-(?P<commit>[0-9a-f]{7,64})")
_PART = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
_PUBLISHED: tuple[tuple[str, Dataset], ...] = (
    ("r2e-gym/", "r2e_gym"),
    ("nebius/swe-rebench-v2", "swe_rebench_v2"),
    ("nebius/swe-rebench", "swe_rebench"),
    ("nebius/swe-bench-extra", "swe_rebench"),
    ("swe-gym/", "swe_gym"),
    ("swe-bench-live/", "swe_bench_live"),
    ("scaleai/swe-bench_pro", "swe_bench_pro"),
    ("bytedance-seed/multi-swe", "multi_swe"),
    ("swe-bench/swe-smith", "swe_smith"),
    ("swe-bench/", "swe_bench"),
    ("princeton-nlp/swe-bench", "swe_bench"),
)


class ImageName(NamedTuple):
    """A name in its parts."""

    registry: str
    """Host, with its port where it has one; empty: the default registry."""
    path: str
    suffix: str
    """`:tag`, `@digest` or both; never empty."""

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}{self.suffix}" if self.registry else f"{self.path}{self.suffix}"


def architecture(machine: str | None = None) -> str:
    """This machine's, as image names spell it."""
    machine = (machine or platform.machine()).lower()
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine)


def parse_name(text: str) -> ImageName:
    """`docker://host:5000/a/b:tag@sha256:...` in parts; a name without tag and digest gets `:latest`."""
    rest = text.removeprefix("docker://")
    rest, at, digest = rest.partition("@")
    first, slash, more = rest.partition("/")
    # A first part with a dot or a port is a host; so is localhost. Namespaces have neither.
    host = first if slash and ("." in first or ":" in first or first == "localhost") else ""
    path = more if host else rest
    path, colon, tag = path.partition(":")
    if not re.fullmatch(f"{_PART}(/{_PART})*", path) or not re.fullmatch(r"[A-Za-z0-9.-]*(:\d+)?", host):
        raise RowError(f"{text!r} is no image name: it reads [host/]path[:tag][@digest], in lower case", kind="image")
    if colon and not re.fullmatch(r"[\w][\w.-]{0,127}", tag, re.ASCII):
        raise RowError(f"{text!r}: {tag!r} is no tag", kind="image")
    if at and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise RowError(f"{text!r}: {digest!r} is no digest; it reads sha256:<64 hex digits>", kind="image")
    if host in ("docker.io", "index.docker.io", "registry-1.docker.io"):
        host = ""
    return ImageName(host, path, f"{colon}{tag}{at}{digest}" or ":latest")


def replace_registry(text: str, prefix: str) -> str:
    """The same image behind `prefix` (`host[:port][/path]`): namespace, tag and digest stay."""
    name = parse_name(text)
    return f"{prefix.removeprefix('docker://').rstrip('/')}/{name.path}{name.suffix}"


def dataset_of(published: str) -> Dataset | None:
    """The rule for a dataset by its published name; None: no rule is known."""
    lowered = published.lower()
    if lowered in DATASETS:
        return lowered
    return next((dataset for start, dataset in _PUBLISHED if lowered.startswith(start)), None)


def field_name(row: Mapping[str, Json]) -> str | None:
    """The name in a row's own field."""
    for key in FIELDS:
        value = row.get(key)
        if isinstance(value, str) and value:
            return str(parse_name(value))
    return None


def rule_name(row: Mapping[str, Json], dataset: Dataset, *, arch: str | None = None) -> str | None:
    """The name by the dataset's rule; None: it has none."""
    if dataset == "swe_rebench_v2":
        return None
    if dataset == "r2e_gym":
        repo, commit = _r2e_parts(row)
        return f"namanjain12/{repo}_final:{commit}"
    if dataset == "swe_bench_pro":
        return str(parse_name(f"jefzda/sweap-images:{_text(row, 'dockerhub_tag')}"))
    if dataset == "multi_swe":
        name = f"mswebench/{_text(row, 'org')}_m_{_text(row, 'repo')}".lower()
        return str(parse_name(f"{name}:pr-{row.get('number')}"))
    if dataset == "swe_smith":
        repo = _text(row, "instance_id").rsplit(".", 1)[0].lower().replace("__", "_1776_")
        return str(parse_name(f"swebench/swesmith.{arch or architecture()}.{repo}"))
    separator = {"swe_gym": "_s_", "swe_bench_local": "__"}.get(dataset, "_1776_")
    namespace = {
        "swe_bench": "swebench/",
        "swe_gym": "xingyaoww/",
        "swe_rebench": "swerebench/",
        "swe_bench_live": "starryzhang/",
    }.get(dataset, "")
    key = f"sweb.eval.{arch or architecture()}.{_text(row, 'instance_id')}:latest"
    return str(parse_name(namespace + key.lower().replace("__", separator)))


def image_name(row: Mapping[str, Json], dataset: Dataset | None = None, *, arch: str | None = None) -> str:
    """The store's name of a row's image: the row's own field, else the rule of `dataset`."""
    if own_name := field_name(row):
        return own_name
    dataset = dataset or dataset_of(str(row.get("dataset") or row.get("dataset_name") or ""))
    by_rule = rule_name(row, dataset, arch=arch) if dataset else None
    if by_rule is None:
        raise RowError(
            f"row {row.get('instance_id')!r} names no image ({', '.join(FIELDS)}) and "
            + (f"{dataset} has no rule for one" if dataset else f"no dataset ({', '.join(DATASETS)}) to compute it by"),
            kind="image_unnamed",
        )
    return by_rule


def rewrites(instance_id: str) -> list[str]:
    """The forms in which names of files and images hold an id, each once: as it is, the known rewrites, lower case.

    `org__repo-commit` is also `repo_final_commit`, as R2E-Gym's images are named when they are files.
    """
    forms = [instance_id, instance_id.lower()]
    for separator in ("_1776_", "_s_"):
        swapped = instance_id.replace("__", separator)
        forms += [swapped, swapped.lower()]
    if (match := _COMMIT_ID.fullmatch(instance_id)) is not None:
        forms.append(f"{match['repo'].lower()}_final_{match['commit']}")
    return list(dict.fromkeys(forms))


def _r2e_parts(row: Mapping[str, Json]) -> tuple[str, str]:
    if row.get("repo_name") and row.get("commit_hash"):
        return str(row["repo_name"]).lower(), str(row["commit_hash"])
    match = _COMMIT_ID.fullmatch(_text(row, "instance_id"))
    if match is None:
        raise RowError("needs repo_name and commit_hash, or an instance_id org__repo-commit", kind="image_unnamed")
    return match["repo"].lower(), match["commit"]


def _text(row: Mapping[str, Json], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise RowError(f"{key} is missing: an image's name is computed from it", kind="image_unnamed")
    return value
