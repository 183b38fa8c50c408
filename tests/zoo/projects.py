"""Small projects with a bug, of the kinds that repositories come in, as rows with images: what patches are tried on.

File    of `trees/`: `key: value` lines, then blocks whose text is a file's: `=== tree PATH` of the repository,
        `=== fixed PATH` as the reference fix leaves it, `=== test PATH` of the reference's tests, `=== way NAME PATH`
        as another right fix leaves it; and ids of tests, one a line: `=== must change`, `=== must stay`.
Keys    `what`, `python`, `command` (of the tests); where they are there, `pip` (pins), `parser`, `before` (a command
        that the row's script runs before its tests), `compiler` (the image has C's).
Image   named by its project and a digest of the project's file: built once per store. A file that is executable in a
        tree is one that starts with `#!`.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paddock.resources_servers.swe.rows.commands import RepoCommand
from paddock.resources_servers.swe.rows.scripts import make
from paddock.sandbox.images import ImageStore, Recipe
from paddock.sandbox.images.build import build_image, python_image
from paddock.sandbox.images.build.base import SUITE, WITHOUT, mover, own_tree, without_merged
from paddock.sandbox.images.build.debian import Apt, unpack, without_copies
from paddock.sandbox.images.build.stage import cache, name_lock, new_stage
from paddock.sandbox.images.store import LocalImage
from paddock.types import JsonObject

TREES = Path(__file__).parent / "trees"
IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"]
DATES = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
COMPILER = ("gcc", "libc6-dev", "libpython3.11-dev")
"""Debian's packages for an extension of its own Python."""
_BLOCK = re.compile(r"^=== (tree|fixed|test|way|must) (\S+) ?(.*)\n", re.MULTILINE)


class Project(NamedTuple):
    """One file of `trees/`."""

    name: str
    keys: Mapping[str, str]
    tree: Mapping[str, str]
    """Text by path, as everywhere here."""
    fixed: Mapping[str, str]
    """The files of the fix alone."""
    tests: Mapping[str, str]
    ways: Mapping[str, Mapping[str, str]]
    """Other right fixes by name, each the files in which it differs from the reference's."""
    must_change: list[str]
    must_stay: list[str]
    digest: str

    @property
    def image(self) -> str:
        """Also the row's instance id."""
        return f"zoo__{self.name}-{self.digest}"


def projects(folder: Path = TREES) -> dict[str, Project]:
    """All of a folder, by name."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.txt"))}


def _read(path: Path) -> Project:
    text = path.read_text()
    head, *parts = _BLOCK.split(text)
    files: dict[str, dict[str, str]] = {"tree": {}, "fixed": {}, "test": {}}
    ways: dict[str, dict[str, str]] = {}
    ids: dict[str, list[str]] = {}
    for kind, word, more, body in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        if kind == "way":
            ways.setdefault(word, {})[more] = body
        elif kind == "must":
            ids[word] = body.splitlines()
        else:
            files[kind][word] = body
    return Project(
        path.stem,
        dict(line.split(": ", 1) for line in head.splitlines() if line),
        files["tree"],
        files["fixed"],
        files["test"],
        ways,
        ids["change"],
        ids["stay"],
        hashlib.sha256(text.encode()).hexdigest()[:12],
    )


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Put files into a tree."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)


def commit(project: Project, folder: Path) -> None:
    """A repository with the project as one commit, the same one each time."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, project.tree)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", project.name)


def git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    """What git says, any bytes in it."""
    command = ["git", *IDENTITY, *words]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **DATES}, capture_output=True, check=True, input=stdin
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def changes(folder: Path, *options: str) -> str:
    """A patch of everything in which a tree differs from its commit; the tree is staged."""
    git(folder, "add", "-A", "--force")
    return git(folder, "diff", "--cached", "--binary", *options, "HEAD")


def patch_of(folder: Path, files: Mapping[str, str]) -> str:
    """A patch that writes these files; the tree is as its commit before and after."""
    write(folder, files)
    made = changes(folder, "--no-renames")
    git(folder, "reset", "-q", "--hard")
    return made


async def make_row(images: ImageStore, project: Project, folder: Path) -> JsonObject:
    """The row of a project, its image built. `folder` becomes the project's repository."""
    commit(project, folder)
    keys = project.keys
    recipe: JsonObject = {
        "python": keys["python"],
        "git": {"repository": str(folder), "commit": git(folder, "rev-parse", "HEAD").strip()},
        "pip": keys.get("pip", "").split(),
        "install": keys.get("before") if "compiler" not in keys else None,
    }
    async with name_lock(images, f"{project.image}.whole"):
        if not images.has(project.image):
            await _build(images, project, Recipe.model_validate(recipe), folder)
    row: JsonObject = {
        "instance_id": project.image,
        "repo": f"zoo/{project.name}",
        "problem_statement": keys["what"],
        "patch": patch_of(folder, project.fixed),
        "FAIL_TO_PASS": project.must_change,
        "PASS_TO_PASS": project.must_stay,
        "log_parser": keys.get("parser", "parse_log_pytest"),
    }
    if "before" not in keys:
        tests: JsonObject = {"test_files": dict(project.tests), "test_command": keys["command"]}
        return {**row, **tests, "image": project.image}
    test_patch = patch_of(folder, project.tests)
    command = RepoCommand([keys["before"]], keys["command"])
    script = make(command, test_patch=test_patch.encode(), workdir="/testbed", conda=False)
    return {**row, "test_patch": test_patch, "eval_script": script, "eval_type": "pass_and_fail", "paddock": recipe}


async def _build(images: ImageStore, project: Project, recipe: Recipe, folder: Path) -> None:
    if "compiler" not in project.keys:
        await build_image(images, project.image, recipe, local_repositories=[folder])
        return
    below = await build_image(images, f"{project.image}.tree", recipe, local_repositories=[folder])
    compiler = await _compiler(images, recipe.python)
    layers = [*below.record.layers, compiler.record.layers[-1]]
    images.name(below.record.model_copy(update={"name": project.image, "layers": layers}))


async def _compiler(images: ImageStore, minor: str) -> LocalImage:
    """Python's image and one layer with `COMPILER`."""
    below = await python_image(images, minor, lambda _line: None)
    name = f"zoo__compiler-{below.record.layers[-1][:12]}"
    async with name_lock(images, name):
        if images.has(name):
            return images.get(name)
        with new_stage(images) as stage:
            apt = Apt(stage.folder("apt"), cache(images, "debian"), SUITE)
            await apt.start()
            packages = await apt.closure(COMPILER, without=WITHOUT)
            await unpack(await apt.fetch(packages), stage.tree)
            without_copies(stage.tree, below.layers)
            without_merged(stage.tree)
            own_tree(images, stage.tree)
            return images.add(name, mover(stage.tree), base=below.record.name)
