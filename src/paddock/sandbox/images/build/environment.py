"""The environment layer over a Python layer: a virtual environment of exact pins, shared by all images with these pins.

Name    `paddock/environment:<key>`; the key is made of the Python below and the pins. A repository's instances mostly
        differ in their trees alone, and an environment weighs more than a tree.
Made    inside, without a network, from wheels and source distributions that lie there; a recipe's `env` and `install`
        are the instance's own and have no part in it.
Errors  RowError `build_step`: a pin that can't be installed, with the end of the log. InfraError: index or machine.
"""

from pathlib import Path
from shlex import quote

from paddock.errors import RowError
from paddock.sandbox.images.build.base import ENV, Progress, current, digest, mover
from paddock.sandbox.images.build.index import Index
from paddock.sandbox.images.build.inside import GIVEN, open_to_all, run_inside
from paddock.sandbox.images.build.python import interpreter_of
from paddock.sandbox.images.build.stage import cache, name_lock, new_stage
from paddock.sandbox.images.build.wheels import Wheels, fetch_wheels, with_pip
from paddock.sandbox.images.recipe import Recipe
from paddock.sandbox.images.store import ImageStore, LocalImage

VENV = "/opt/venv"
PIP = (
    "export PIP_NO_INDEX=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore\n"
    "export PIP_NO_INPUT=1 PIP_CONFIG_FILE=/dev/null"
)
_SCRIPT = """
{settings}
{python} -m venv --without-pip {venv}
export PATH={venv}/bin:"$PATH" VIRTUAL_ENV={venv}
PYTHONPATH={pip} python -m pip install -q --no-deps --no-compile {pip}
{wheels}
rm -rf /root/.cache /root/.local /root/.config
"""


async def environment_image(
    store: ImageStore, recipe: Recipe, python: LocalImage, index: Index, progress: Progress
) -> LocalImage:
    """Base, Python and the environment of a recipe's pins, built once per store."""
    pins = with_pip(recipe)
    key = digest(1, _SCRIPT, pins, python.record.layers)
    name = f"paddock/environment:{key}"
    async with name_lock(store, name):
        return current(store, name, key) or await _build(store, name, key, recipe, python, index, progress)


async def _build(
    store: ImageStore, name: str, key: str, recipe: Recipe, python: LocalImage, index: Index, progress: Progress
) -> LocalImage:
    pins = with_pip(recipe)
    with new_stage(store) as stage:
        given = stage.folder("given")
        progress(f"{name}: {len(pins)} pinned packages")
        wheels = await fetch_wheels(
            pins,
            recipe.python,
            index=index,
            wheel_cache=cache(store, f"wheels-{recipe.python}"),
            to=stage.folder("given/wheels"),
        )
        open_to_all(given)
        progress(f"{name}: installed without a network")
        script = _script(pins[0], interpreter_of(python), given, wheels)
        env = {**python.record.env, **ENV, "PATH": python.record.env["PATH"]}
        done = await run_inside(
            stage,
            python.layers,
            script,
            payload_id=store.payload_id,
            limits=store.limits,
            env=env,
            folders={"given": given},
        )
        if done.code:
            raise RowError(f"{name}: build step `environment` ended with {done.code}:\n{done.tail}", kind="build_step")
        packages = sorted(path.name for path in (*wheels.wheels, *wheels.sources))
        return store.add(
            name,
            mover(stage.tree),
            base=python.record.name,
            env={"PATH": f"{VENV}/bin:{python.record.env['PATH']}", "VIRTUAL_ENV": VENV},
            origin={"key": key, "packages": packages},
        )


def _script(pip_pin: str, python: str, given: Path, files: Wheels) -> str:
    def inside(path: Path) -> str:
        return quote(f"{GIVEN}/{path.relative_to(given)}")

    pip = next((wheel for wheel in files.wheels if wheel.name.startswith("pip-")), None)
    if pip is None:
        raise RowError(f"no wheel of {pip_pin}", kind="no_such_package")
    lines = []
    if others := [inside(wheel) for wheel in files.wheels if wheel != pip]:
        lines.append("python -m pip install -q --no-deps " + " ".join(others))
    lines += [f"python -m pip install -q --no-deps --no-build-isolation {inside(source)}" for source in files.sources]
    return _SCRIPT.format(settings=PIP, python=quote(python), venv=VENV, pip=inside(pip), wheels="\n".join(lines))
