"""An instance's reference fix with what playing it needs: the texts that it changes, and a line that runs tests.

Source  the instance, and its image in the store, read by the host: nothing is started.
Law     whoever has a `Fix` plays it through an agent's tools; of what is hidden, no name is in `test_command` and no
        text in `files`. A file that is not there, too large or no UTF-8 is left out of `files`.
Errors  those of getting the image.
"""

import asyncio
import re
from collections.abc import Iterator
from posixpath import join

from paddock.edits import Delete, Hunks, Move, PatchError, parse_unified_diff
from paddock.resources_servers.swe.grading.patches import sections
from paddock.resources_servers.swe.grading.script import read_script
from paddock.resources_servers.swe.images import Images
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox.images import ImageStore
from paddock.sandbox.layers.marks import Marks
from paddock.sandbox.layers.tree import LayerTree
from paddock.types import Fix

TEXT_BYTES = 8 << 20
"""Larger files are no source."""
NO_TESTS = "git status --short"
"""The command where the agent's tree holds no test."""
_ACTIVATES = re.compile(r"^(?:source|\.) (?P<file>/\S+/activate)$|^conda activate \S+$")


async def known_fix(instance: SweInstance, images: Images, store: ImageStore) -> Fix:
    """Read the fix of an instance; its image is pulled or built where the store lacks it."""
    name = await images.ensure(instance)
    return await asyncio.to_thread(_read, instance, store, name)


def _read(instance: SweInstance, store: ImageStore, image: str) -> Fix:
    tree = LayerTree(store.get(image).layers[::-1], Marks())
    return Fix(
        patch=instance.gold_patch,
        workdir=instance.workdir,
        files=dict(_texts(tree, instance)),
        test_command=_test_command(tree, instance),
    )


def _texts(tree: LayerTree, instance: SweInstance) -> Iterator[tuple[str, str]]:
    """Yield path and text of the files that the fix changes."""
    if instance.image_patch:
        return  # the image's tree is not the task's
    try:
        edits = parse_unified_diff(instance.gold_patch.decode())
    except (UnicodeDecodeError, PatchError):
        return  # whoever plays it says so
    for edit in edits:
        if not isinstance(edit, Hunks | Move | Delete):
            continue
        path = join(instance.workdir, edit.path)
        try:
            data = tree.read(path.encode(), max_bytes=TEXT_BYTES + 1)
            if len(data) <= TEXT_BYTES:
                yield edit.path, data.decode()
        except (OSError, UnicodeDecodeError):
            continue


def _test_command(tree: LayerTree, instance: SweInstance) -> str:
    """Return the instance's own command without the words that name what an agent does not have."""
    script = read_script(instance)
    absent = {path for path in _test_paths(instance) if not _is_there(tree, join(instance.workdir, path))}
    secret = (*instance.hidden_paths, *instance.test_tools)
    lines = [" ".join(line.split()) for line in script.tests if not any(path in line for path in secret)]
    lines = [line for line in lines if line not in ("", ":")]
    shown = [_without(line, absent) for line in lines]
    # Without its last path a command would run all tests there are.
    if not shown or any(before != after and not _paths(after) for before, after in zip(lines, shown, strict=True)):
        return NO_TESTS
    return " && ".join([*_activation(tree, script.setup), "; ".join(shown)])


def _test_paths(instance: SweInstance) -> set[str]:
    """Return the paths of the reference tests, below the workdir."""
    patched = (path for section in sections(instance.test_patch) for path in section.paths)
    return {*(path[2:] for path in patched if path.startswith(("a/", "b/"))), *instance.test_files}


def _without(line: str, absent: set[str]) -> str:
    modules = {path.removesuffix(".py").replace("/", ".") for path in absent}

    def is_kept(word: str) -> bool:
        name = word.strip("'\"").partition("::")[0].removeprefix("./")
        return name not in absent and not any(module == name or module.endswith(f".{name}") for module in modules)

    return " ".join(word for word in line.split(" ") if is_kept(word))


def _paths(line: str) -> bool:
    """Say whether a command names a test of its own; its first word is the program."""
    return any(not word.startswith("-") and ("/" in word or "." in word) for word in line.split(" ")[1:])


def _activation(tree: LayerTree, setup: tuple[str, ...]) -> list[str]:
    """Return the lines that activate the tests' own environment, where the image has it."""
    matches = [matched for line in setup if (matched := _ACTIVATES.match(line.strip()))]
    files = [matched["file"] for matched in matches if matched["file"]]
    if not files or not all(_is_there(tree, file) for file in files):
        return []
    return list(dict.fromkeys(matched[0].replace("source ", ". ", 1) for matched in matches))


def _is_there(tree: LayerTree, path: str) -> bool:
    try:
        with tree.at(path.encode()):
            return True
    except OSError:
        return False
