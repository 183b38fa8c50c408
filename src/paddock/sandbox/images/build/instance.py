"""An image from a recipe: base, Python, environment, and one layer with the tree, made inside without a network.

Tree    committed with fixed author and dates, so that the same recipe gives the same commit (`origin["head"]`).
Again   an image whose recipe and lower layers are the same is not built again; two builders of one name share.
Errors  RowError `build_step`: a step's own failure, with the end of its log. InfraError: index or machine. Nothing
        half-done stays.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from paddock.errors import RowError
from paddock.processes.command import CommandResult
from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.build.base import ENV, Progress, current, digest, mover
from paddock.sandbox.images.build.environment import PIP, environment_image
from paddock.sandbox.images.build.index import Index, PipConfig
from paddock.sandbox.images.build.inside import GIVEN, open_to_all, run_inside
from paddock.sandbox.images.build.local import check_allowed
from paddock.sandbox.images.build.python import interpreter_of, python_image
from paddock.sandbox.images.build.source import fetch_source
from paddock.sandbox.images.build.stage import BuildStage, cache, name_lock, new_stage
from paddock.sandbox.images.recipe import Recipe
from paddock.sandbox.images.store import ImageStore, LocalImage

_WHO = "Paddock <paddock@localhost>"
_WHEN = "2000-01-01T00:00:00+0000"
_EXCLUDE = "*.pyc\n__pycache__/\n*.egg-info/\nbuild/\n.pytest_cache/\n"
_SCRIPT = """
step() {{ echo "paddock step: $1"; }}
{settings}
step unpack
mkdir -p {workdir}
cd {workdir}
case {archive} in
    *.zip) {python} -m zipfile -e {archive} /tmp/source; cp -a /tmp/source/*/. . ;;
    *) tar -xf {archive} --no-same-owner --no-same-permissions --strip-components=1 ;;
esac
find . -name .git -prune -exec rm -rf {{}} +
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


async def build_image(
    store: ImageStore,
    name: str,
    recipe: Recipe,
    *,
    progress: Progress | None = None,
    local_repositories: Sequence[Path] = (),
    require_hashes: bool = False,
) -> LocalImage:
    """The image of a recipe, built where the store lacks it. `local_repositories`: folders of this machine that its
    repository may lie in; `require_hashes`: pins without hashes are refused."""
    if require_hashes and not recipe.is_hashed:
        raise RowError(f"{name}: the recipe's pins have no hashes, which are required here", kind="no_hash")
    if recipe.git is not None:
        check_allowed(recipe.git.repository, local_repositories)
    say = progress or (lambda _line: None)
    index = Index(await PipConfig.read(), cache(store, "sdists"))
    async with name_lock(store, name):
        python = await python_image(store, recipe.python, say)
        try:
            environment = await environment_image(store, recipe, python, index, say)
        except RowError as error:
            raise RowError(f"{name}: {error.message}", kind=error.kind) from error
        key = digest(2, _SCRIPT, _EXCLUDE, recipe, environment.record.layers)
        built = current(store, name, key)
        if built is not None:
            return built
        with new_stage(store) as stage:
            say(f"{name}: source")
            given = stage.folder("given")
            archive = await fetch_source(recipe, index, stage, given, local_repositories=local_repositories)
            return await _build(store, name, recipe, interpreter_of(python), environment, stage, archive, key, say)


async def _build(
    store: ImageStore,
    name: str,
    recipe: Recipe,
    python: str,
    environment: LocalImage,
    stage: BuildStage,
    archive: Path,
    key: str,
    progress: Progress,
) -> LocalImage:
    """`python`: path inside of the interpreter that unpacks `archive`."""
    given = archive.parent
    open_to_all(given)
    progress(f"{name}: installed without a network")
    script = _script(recipe, python, f"{GIVEN}/{archive.name}")
    env = {**environment.record.env, **ENV, "PATH": environment.record.env["PATH"], **_COMMITTING, **recipe.env}
    try:
        done = await run_inside(
            stage,
            environment.layers,
            script,
            payload_id=store.payload_id,
            limits=store.limits,
            env=env,
            folders={"given": given},
        )
    except ImageInvalid as error:
        raise ImageInvalid(f"{name}: {error.message}", kind=error.kind) from error
    head = _head(name, done)
    return store.add(
        name,
        mover(stage.tree),
        base=environment.record.name,
        env={**ENV, "PATH": environment.record.env["PATH"], **recipe.env},
        workdir=recipe.workdir,
        origin={
            "key": key,
            "head": head,
            "recipe": recipe.model_dump(mode="json"),
            "source": archive.name,
            "packages": environment.record.origin["packages"],
        },
    )


def _script(recipe: Recipe, python: str, archive: str) -> str:
    return _SCRIPT.format(
        settings=PIP,
        workdir=quote(recipe.workdir),
        archive=quote(archive),
        python=quote(python),
        exclude=quote(_EXCLUDE),
        install=f"bash -ec {quote(recipe.install)}" if recipe.install else ":",
    )


def _head(name: str, done: CommandResult) -> str:
    """The commit that the finished script names last."""
    last = done.output.strip().rsplit("\n", 1)[-1]
    if done.code == 0 and re.fullmatch(r"[0-9a-f]{40}", last):
        return last
    steps = _LAST_STEP.findall(done.output)
    raise RowError(
        f"{name}: build step `{steps[-1] if steps else 'start'}` ended with {done.code}:\n{done.tail}",
        kind="build_step",
    )
