"""The source tree of a recipe, as one archive for the inside: a checked source distribution, or one commit's files.

Commit  fetched into a fresh bare repository of ours, without history, tags or submodules, and checked out from there
        without filters: LFS contents stay pointers. Nothing that a repository's configuration, hooks or attributes
        name can run, on whichever side it lies.
Own     the operator's git configuration (certificates, credentials, proxies) is read for a network's URL alone.
Errors  RowError: no such repository or commit, or one that a recipe may not read. InfraError: the remote does not
        answer.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from paddock.errors import InfraError, RowError
from paddock.processes.command import CommandResult, run
from paddock.sandbox.images.build.index import Index
from paddock.sandbox.images.build.local import borrow, local_path
from paddock.sandbox.images.build.stage import BuildStage
from paddock.sandbox.images.recipe import GitSource, Recipe

_UNREACHABLE = ("could not resolve", "unable to access", "connection", "timed out", "early eof")
_SETTINGS = {
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.commitGraph": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
}
_PROGRAM = ("git", *(word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")))
_FETCH = ["fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules"]
_OF_A_REPOSITORY = re.compile(
    r"GIT_(DIR|WORK_TREE|COMMON_DIR|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|NAMESPACE|PREFIX"
    r"|SHALLOW_FILE|GRAFT_FILE|CONFIG|CEILING_DIRECTORIES|TEMPLATE_DIR|ALLOW_PROTOCOL|EXTERNAL_DIFF)"
)
"""Variables of a git that runs us, or that would lead ours to another repository."""


async def fetch_source(
    recipe: Recipe, index: Index, stage: BuildStage, to: Path, *, local_repositories: Sequence[Path] = ()
) -> Path:
    """The archive, in `to`; all that it holds lies below one folder. `local_repositories`: folders of this machine
    that a recipe's repository may lie in."""
    if recipe.git is not None:
        return await _snapshot(recipe.git, stage, to, local_repositories)
    assert recipe.sdist is not None
    archive = await index.sdist(recipe.sdist, [recipe.sdist_sha256] if recipe.sdist_sha256 else ())
    return Path(shutil.copyfile(archive, to / archive.name))


async def _snapshot(source: GitSource, stage: BuildStage, to: Path, allowed: Sequence[Path]) -> Path:
    bare = await _fetched(source, stage, allowed)
    tree = stage.folder("snapshot") / "tree"
    tree.mkdir()
    # `git archive` would obey the tree's own export rules: it is not what a checkout has.
    for words in (["read-tree", "FETCH_HEAD^{commit}"], ["checkout-index", "--all", f"--prefix={tree}/"]):
        done = await _git(["--git-dir", bare, "--work-tree", tree, *words], stage)
        if done.code:
            raise _missing(source, done)
    archive = to / "source.tar.gz"
    done = await run(["tar", "-czf", archive, "-C", tree.parent, "tree"])
    if done.code:
        raise InfraError(f"{source.repository}: its files could not be packed:\n{done.tail}", kind="snapshot")
    shutil.rmtree(tree.parent)
    return archive


async def _fetched(source: GitSource, stage: BuildStage, allowed: Sequence[Path]) -> Path:
    """A bare repository that has the commit as FETCH_HEAD."""
    path = local_path(source.repository)
    bare = await _bare(stage, "repository.git")
    if path is None:
        words: list[str | Path] = ["--git-dir", bare, *_FETCH, "--", source.repository, source.commit]
        done = await _git(words, stage, network=True)
    else:
        lender = await _bare(stage, "lender.git")
        await asyncio.to_thread(borrow, source.repository, path, allowed, lender)
        done = await _git(["--git-dir", lender, "rev-parse", "--verify", f"{source.commit}^{{commit}}"], stage)
        commit = done.output.strip()
        if not done.code:
            done = await _git(["--git-dir", bare, *_FETCH, "--", lender, commit], stage)
    if path is None and done.code and any(sign in done.output.lower() for sign in _UNREACHABLE):
        raise InfraError(f"{source.repository} does not answer:\n{done.tail}", kind="repository_unavailable")
    if done.code:
        raise _missing(source, done)
    return bare


async def _bare(stage: BuildStage, name: str) -> Path:
    """A repository of ours: empty, without a template's hooks."""
    bare = stage.root / name
    done = await _git(["init", "-q", "--bare", "--template=", bare], stage)
    if done.code:
        raise InfraError(f"git can't make a repository here:\n{done.tail}", kind="git")
    (bare / "objects" / "info").mkdir(exist_ok=True)
    return bare


async def _git(words: Sequence[str | Path], stage: BuildStage, *, network: bool = False) -> CommandResult:
    """Git on repositories of ours: without anybody's configuration, or with the operator's for a network's URL."""
    env = {
        "GIT_ALLOW_PROTOCOL": "https:http:ssh" if network else "file",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if network:
        inherited = {key: value for key, value in os.environ.items() if not _OF_A_REPOSITORY.fullmatch(key)}
    else:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        nobody = str(stage.folder("nobody"))
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": nobody, "XDG_CONFIG_HOME": nobody}
    return await run([*_PROGRAM, *words], env=env, inherited=inherited)


def _missing(source: GitSource, done: CommandResult) -> RowError:
    return RowError(f"{source.repository} at {source.commit}:\n{done.tail}", kind="no_such_commit")
