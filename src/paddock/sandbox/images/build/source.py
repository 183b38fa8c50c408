"""The source tree of a recipe, as one archive for the inside: a checked source distribution, or one commit's files.

Commit  only the files of that commit leave the repository: no history, no refs, no remote. A path is read in place; a
        URL is fetched by its own git, shallow. Submodules and LFS contents are not followed.
Errors  RowError: no such repository or commit. InfraError: the remote does not answer.
"""

import shutil
from pathlib import Path

from paddock.errors import InfraError, RowError
from paddock.sandbox.images.build.index import Index
from paddock.sandbox.images.build.process import Finished, run
from paddock.sandbox.images.build.staging import Stage
from paddock.sandbox.images.recipe import GitSource, Recipe

_UNREACHABLE = ("could not resolve", "unable to access", "connection", "timed out", "early eof")
_GIT = ["git", "-c", "safe.directory=*", "-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null"]


async def fetch_source(recipe: Recipe, index: Index, stage: Stage, to: Path) -> Path:
    """The archive, in `to`; all that it holds lies below one folder."""
    if recipe.git is not None:
        return await _snapshot(recipe.git, stage, to)
    assert recipe.sdist is not None
    kept = await index.sdist(recipe.sdist, recipe.sdist_sha256)
    return Path(shutil.copyfile(kept, to / kept.name))


async def _snapshot(source: GitSource, stage: Stage, to: Path) -> Path:
    repository, commit = await _repository(source, stage)
    tree = stage.folder("snapshot") / "tree"
    tree.mkdir()
    env = {"GIT_INDEX_FILE": str(stage.root / "index")}
    # `git archive` would obey the tree's own export rules: it is not what a checkout has.
    for words in (["read-tree", commit], ["checkout-index", "--all", f"--prefix={tree}/"]):
        done = await run([*_GIT, "--git-dir", repository, "--work-tree", tree, *words], env=env)
        if done.code:
            raise _missing(source, done)
    archive = to / "source.tar.gz"
    done = await run(["tar", "-czf", archive, "-C", tree.parent, "tree"])
    if done.code:
        raise InfraError(f"{source.repository}: its files could not be packed:\n{done.tail}", kind="snapshot")
    shutil.rmtree(tree.parent)
    return archive


async def _repository(source: GitSource, stage: Stage) -> tuple[Path, str]:
    """A git folder that has the commit, and what the commit is called there."""
    if local := _folder(source.repository):
        done = await run([*_GIT, "-C", local, "rev-parse", "--absolute-git-dir"])
        if done.code:
            raise _missing(source, done)
        return Path(done.output.strip()), f"{source.commit}^{{commit}}"
    bare = stage.root / "repository.git"
    steps: tuple[list[str | Path], ...] = (
        ["init", "-q", "--bare", bare],
        ["--git-dir", bare, "fetch", "-q", "--depth=1", "--no-tags", "--", source.repository, source.commit],
    )
    for words in steps:
        done = await run([*_GIT, *words], env={"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:http:ssh:file"})
        if done.code and any(sign in done.output.lower() for sign in _UNREACHABLE):
            raise InfraError(f"{source.repository} does not answer:\n{done.tail}", kind="repository_unavailable")
        if done.code:
            raise _missing(source, done)
    return bare, "FETCH_HEAD^{commit}"


def _folder(repository: str) -> Path | None:
    path = Path(repository).expanduser()
    return path if path.is_dir() else None


def _missing(source: GitSource, done: Finished) -> RowError:
    return RowError(f"{source.repository} at {source.commit}:\n{done.tail}", kind="no_such_commit")
