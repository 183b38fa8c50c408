"""An image from a recipe: base, Python, and one layer with the environment and the tree, made inside without a network.

Tree    committed with fixed author and dates, so that the same recipe gives the same commit (`origin["head"]`).
Again   an image whose recipe and lower layers are the same is not built again; two builders of one name share.
Errors  RowError `build_step`: a step's own failure, with the end of its log. InfraError: index or machine. Nothing
        half-done stays.
"""

import os
import re
from pathlib import Path
from shlex import quote

from paddock.errors import RowError
from paddock.sandbox.images.build.base import ENV, Progress, current, digest, mover
from paddock.sandbox.images.build.index import Index, PipConfig
from paddock.sandbox.images.build.inside import run_inside
from paddock.sandbox.images.build.process import Finished
from paddock.sandbox.images.build.python import interpreter_of, python_image
from paddock.sandbox.images.build.source import fetch_source
from paddock.sandbox.images.build.staging import cache, locked, staged
from paddock.sandbox.images.build.wheels import Wheels, fetch_wheels, with_pip
from paddock.sandbox.images.recipe import Recipe
from paddock.sandbox.images.store import ImageStore, LocalImage

VENV = "/opt/venv"
_WHO = "Paddock <paddock@localhost>"
_WHEN = "2000-01-01T00:00:00+0000"
_EXCLUDE = "*.pyc\n__pycache__/\n*.egg-info/\nbuild/\n.pytest_cache/\n"
_SCRIPT = """
step() {{ echo "paddock step: $1"; }}
export PIP_NO_INDEX=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export PIP_NO_INPUT=1 PIP_CONFIG_FILE=/dev/null
step unpack
mkdir -p {workdir}
cd {workdir}
case {archive} in
    *.zip) {python} -m zipfile -e {archive} /tmp/source; cp -a /tmp/source/*/. . ;;
    *) tar -xf {archive} --no-same-owner --no-same-permissions --strip-components=1 ;;
esac
find . -name .git -prune -exec rm -rf {{}} +
step environment
{python} -m venv --without-pip {venv}
export PATH={venv}/bin:"$PATH" VIRTUAL_ENV={venv}
PYTHONPATH={pip} python -m pip install -q --no-deps --no-compile {pip}
{wheels}
step commit
git init -q
printf %s {exclude} >> .git/info/exclude
git add --all --force
git commit -q --allow-empty -m source
git commit -q --allow-empty -m base
git repack -q -a -d
step install
{install}
step clean
find . -name __pycache__ -prune -exec rm -rf {{}} +
git ls-files --error-unmatch build >/dev/null 2>&1 || rm -rf build
git checkout -q -f .
rm -rf /root/.cache /root/.local /root/.config
step done
git rev-parse HEAD
"""
_AUTHORSHIP = {
    "GIT_AUTHOR_NAME": _WHO.split(" <")[0],
    "GIT_AUTHOR_EMAIL": _WHO.split(" <")[1].rstrip(">"),
    "GIT_AUTHOR_DATE": _WHEN,
}
_COMMITTING = {**_AUTHORSHIP, **{key.replace("AUTHOR", "COMMITTER"): value for key, value in _AUTHORSHIP.items()}}
_LAST_STEP = re.compile(r"^paddock step: (\w+)$", re.MULTILINE)


async def build_image(store: ImageStore, name: str, recipe: Recipe, *, progress: Progress | None = None) -> LocalImage:
    """The image of a recipe, built where the store lacks it."""
    say = progress or (lambda _line: None)
    async with locked(store, name):
        python = await python_image(store, recipe.python, say)
        key = digest(1, _SCRIPT, _EXCLUDE, recipe, with_pip([], recipe.python), python.record.layers)
        return current(store, name, key) or await _build(store, name, recipe, python, key, say)


async def _build(
    store: ImageStore, name: str, recipe: Recipe, python: LocalImage, key: str, progress: Progress
) -> LocalImage:
    index = Index(await PipConfig.read(), cache(store, "sdists"))
    with staged(store) as stage:
        given = stage.folder("given")
        progress(f"{name}: source")
        archive = await fetch_source(recipe, index, stage, given)
        progress(f"{name}: {len(recipe.pip)} pinned packages")
        pins = await fetch_wheels(
            with_pip(recipe.pip, recipe.python),
            recipe.python,
            index=index,
            kept=cache(store, f"wheels-{recipe.python}"),
            to=stage.folder("given/wheels"),
        )
        _open(given)
        progress(f"{name}: installed without a network")
        script = _script(recipe, interpreter_of(python), given, archive, pins)
        env = {**python.record.env, **ENV, "PATH": python.record.env["PATH"], **_COMMITTING, **recipe.env}
        done = await run_inside(
            stage, python.layers, script, payload_id=store.payload_id, env=env, folders={"given": given}
        )
        head = _head(name, done)
        return store.add(
            name,
            mover(stage.tree),
            base=python.record.name,
            env=_environment(python, recipe),
            workdir=recipe.workdir,
            origin={
                "key": key,
                "head": head,
                "recipe": recipe.model_dump(mode="json"),
                "source": archive.name,
                "packages": sorted(path.name for path in (*pins.wheels, *pins.sources)),
            },
        )


def _script(recipe: Recipe, python: str, given: Path, archive: Path, pins: Wheels) -> str:
    def inside(path: Path) -> str:
        return quote(f"/mnt/given/{path.relative_to(given)}")

    pip = next((wheel for wheel in pins.wheels if wheel.name.startswith("pip-")), None)
    if pip is None:
        raise RowError(f"no wheel of {with_pip(recipe.pip, recipe.python)[0]}", kind="no_such_package")
    lines = []
    if others := [inside(wheel) for wheel in pins.wheels if wheel != pip]:
        lines.append("python -m pip install -q --no-deps " + " ".join(others))
    lines += [f"python -m pip install -q --no-deps --no-build-isolation {inside(source)}" for source in pins.sources]
    return _SCRIPT.format(
        workdir=quote(recipe.workdir),
        archive=inside(archive),
        python=quote(python),
        venv=VENV,
        pip=inside(pip),
        wheels="\n".join(lines),
        exclude=quote(_EXCLUDE),
        install=f"bash -ec {quote(recipe.install)}" if recipe.install else ":",
    )


def _head(name: str, done: Finished) -> str:
    """The commit that the finished script names last."""
    last = done.output.strip().rsplit("\n", 1)[-1]
    if done.code == 0 and re.fullmatch(r"[0-9a-f]{40}", last):
        return last
    steps = _LAST_STEP.findall(done.output)
    raise RowError(
        f"{name}: build step `{steps[-1] if steps else 'start'}` ended with {done.code}:\n{done.tail}",
        kind="build_step",
    )


def _environment(python: LocalImage, recipe: Recipe) -> dict[str, str]:
    path = f"{VENV}/bin:{python.record.env['PATH']}"
    return {**ENV, "PATH": path, "VIRTUAL_ENV": VENV, **recipe.env}


def _open(given: Path) -> None:
    """Let the payload's uid read what it is given, whatever our umask."""
    for folder, _names, files in os.walk(given):
        Path(folder).chmod(0o755)
        for file in files:
            Path(folder, file).chmod(0o644)
