"""Test commands of repositories whose rows bring none: the official ones, by repository.

Source  SWE-bench up to 4.1 keeps them in tables by repository and version, SWE-Gym in a fork of these; rows since 5.0
        carry their own script. The command is the same in all versions of these repositories that Lite and Verified
        name; older ones differ (Django 1.9 runs without `--parallel 1`, which changes no verdict).
Files   a command is followed by the test patch's files (Django: by their module names), without those that are data.
"""

import re
from typing import NamedTuple

from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.rows.fields import changed_paths

DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
TOX = "tox --current-env -epy39 -v --"
TOX_RUNS = "python -X dev -m pytest -rA --durations 25"
"""What `TOX` runs in Sphinx's own images. A recipe's image has a virtual environment, which is none for the link to its
interpreter that tox makes: nothing that is installed would be found."""
SWE_BENCH = {
    "astropy/astropy": "pytest -rA -vv -o console_output_style=classic --tb=no",
    "django/django": DJANGO,
    "matplotlib/matplotlib": "pytest -rA",
    "marshmallow-code/marshmallow": "pytest -rA",
    "mwaskom/seaborn": "pytest --no-header -rA",
    "pallets/flask": "pytest -rA",
    "psf/requests": "pytest -rA",
    "pvlib/pvlib-python": "pytest -rA",
    "pydata/xarray": "pytest -rA",
    "pydicom/pydicom": "pytest -rA",
    "pylint-dev/astroid": "pytest -rA",
    "pylint-dev/pylint": "pytest -rA",
    "pytest-dev/pytest": "pytest -rA",
    "pyvista/pyvista": "pytest -rA",
    "scikit-learn/scikit-learn": "pytest -rA",
    "sphinx-doc/sphinx": TOX,
    "sqlfluff/sqlfluff": "pytest -rA",
    "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
}
SWE_GYM = {
    "bokeh/bokeh": "pytest -n0 -rA",
    "conan-io/conan": "pytest -n0 -rA",
    "dask/dask": "pytest -n0 -rA --color=no",
    "facebookresearch/hydra": "pytest -rA --tb=long",
    "getmoto/moto": "pytest -n0 -rA",
    "iterative/dvc": "pytest -rA",
    "modin-project/modin": "pytest -n0 -rA",
    "pandas-dev/pandas": "pytest -rA --tb=long",
    "project-monai/monai": "pytest -rA",
    "pydantic/pydantic": "pytest -rA --tb=short -vv -o console_output_style=classic --no-header",
    "python/mypy": "pytest -n0 -rA",
}
CASE = re.compile(r"^[+ ]\[case ([^\]]+)\]", re.MULTILINE)


class RepoCommand(NamedTuple):
    """The shell command that runs a row's tests."""

    before: list[str]
    """Shell lines that set its environment."""
    line: str


def swe_bench(repo: str, test_patch: bytes, given: str | None) -> RepoCommand | None:
    """The official command of a SWE-bench repository; None: it is not known. `given` is the row's own."""
    base = given or SWE_BENCH.get(repo)
    if base is None:
        return None
    paths = [path for path in changed_paths(test_patch) if official.is_test_path(path)]
    if repo != "django/django":
        return RepoCommand([], given or " ".join([base, *paths]))
    locale = [f"export {name}=C.UTF-8" for name in ("LANG", "LC_ALL")]
    return RepoCommand(locale, given or " ".join([base, *map(_django_label, paths)]))


def swe_gym(repo: str, test_patch: bytes, given: str | None) -> RepoCommand | None:
    """The command of a SWE-Gym repository; None: it is not known. `given` is the row's own."""
    base = given or SWE_GYM.get(repo.lower())
    if base is None:
        return None
    if repo.lower() == "python/mypy" and given is None:
        cases = dict.fromkeys(CASE.findall(test_patch.decode(errors="replace")))
        wanted = " or ".join(cases)
        return RepoCommand([], f'{base} -k "{wanted}"')
    return with_files(base, test_patch) if given is None else RepoCommand([], given)


def with_files(base: str, test_patch: bytes) -> RepoCommand:
    """Return a command followed by the files of the test patch."""
    return RepoCommand(
        [], " ".join([base, *(path for path in changed_paths(test_patch) if official.is_test_path(path))])
    )


def _django_label(path: str) -> str:
    return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")
