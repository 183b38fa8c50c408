"""Transformations that are written down: what a right fix does besides, and what comes with it beside the code.

File    `behaviour.txt`, `surroundings.txt`: `## NAME WORDS`, then blocks. `=== call`: lines that a function of the fix
        begins with; `=== import`: lines below one of its modules; `=== new`, `below`, `link PATH`: of the tree, with
        `{tests}` and `{package}` for folders; `=== binary`, `large`, `generated PATH`: a file that is drawn;
        `=== edit`, `overwrite`, `drop tests`: a file that the reference's tests replace.
Words   `own`: for our own projects alone, where nothing looks at it; a runner: where the tests are its;
        `in_place`: where they are of the tree itself.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.zoo.honest_patches.draft import Draft, Transformation, body_start, first_line, indented

HERE = Path(__file__).parent
RUNNERS = ("pytest", "unittest", "django")
LARGE_LINES = 20_000
_ENTRY = re.compile(r"^## (\w+)(.*)\n", re.MULTILINE)
_BLOCK = re.compile(r"^=== (\w+) ?(.*)\n", re.MULTILINE)


class AdditionBlock(NamedTuple):
    kind: str
    path: str
    text: str


def read_additions(file: str) -> list[Transformation]:
    """Those of a file."""
    _, *parts = _ENTRY.split((HERE / file).read_text())
    return [_addition(*one) for one in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]


def _addition(name: str, words: str, text: str) -> Transformation:
    _, *parts = _BLOCK.split(text)
    blocks = [AdditionBlock(*one) for one in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]
    runners = [word for word in words.split() if word in RUNNERS]

    def change(draft: Draft) -> bool:
        subject = draft.subject
        if ("own" in words.split() and not subject.own) or (runners and subject.runner not in runners):
            return False
        if "in_place" in words.split() and not subject.in_place:
            return False
        placed = [_filled(draft, block) for block in blocks]
        return all(block is not None and _fits(draft, block) for block in placed) and all(
            _put(draft, block) for block in placed if block is not None
        )

    change.__name__ = name
    return change


def _filled(draft: Draft, block: AdditionBlock) -> AdditionBlock | None:
    """The block with its folders named; None where the draft has none."""
    package = draft.package()
    if package is None and ("{package}" in block.path or block.text.startswith("from .")):
        return None
    path = block.path.replace("{package}", package or "").replace("{tests}", draft.test_folder())
    return block._replace(path=path)


def _fits(draft: Draft, block: AdditionBlock) -> bool:
    if block.kind in ("new", "link", "binary", "large", "generated"):
        file = draft.folder / block.path
        folder = next(one for one in file.parents if one.exists() or one.is_symlink())
        return not file.exists() and not file.is_symlink() and folder.is_dir() and not folder.is_symlink()
    if block.kind == "below":
        return draft.has(block.path)
    if block.kind in ("edit", "overwrite", "drop"):
        return _replaced_test(draft) is not None
    return _place(draft, block.kind) is not None


def _put(draft: Draft, block: AdditionBlock) -> bool:
    kind, path, text = block
    if kind == "new":
        return draft.new({path: text})
    if kind == "below":
        return draft.append(path, text)
    if kind == "link":
        file = draft.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(text.strip())
    elif kind == "binary":
        draft.put(path, b"\x89PNG\r\n\x1a\n" + draft.chance.randbytes(3000))
    elif kind == "large":
        draft.put(path, "".join(f"{number},{draft.chance.random()}\n" for number in range(LARGE_LINES)))
    elif kind == "generated":
        draft.put(path, f"TABLE = {[draft.chance.randrange(1000) for _ in range(2000)]!r}\n")
    elif kind in ("edit", "overwrite", "drop"):
        return _test_changed(draft, kind, text)
    else:
        return _code_put(draft, kind, text)
    return True


def _place(draft: Draft, kind: str) -> object | None:
    if kind == "import":
        return next(iter(draft.sources()), None)
    return next((one for _, one in draft.functions() if body_start(one) is not None), None)


def _code_put(draft: Draft, kind: str, text: str) -> bool:
    if kind == "import":
        package = draft.package()
        found = [one for one in draft.sources() if not text.startswith("from .") or _folder(one.path) == package]
        return draft.append(found[0].path, f"\n\n{text}")
    for source, function in draft.functions():
        first = body_start(function)
        if first is not None:
            at = first_line(first)
            return draft.replace(source, at, at, indented(text.splitlines(), first.col_offset))
    return False


def _folder(path: str) -> str:
    return str(Path(path).parent)


def _replaced_test(draft: Draft) -> str | None:
    """A file of Python tests that is in the tree and that the reference has too."""
    return next((one for one in sorted(draft.subject.tests) if one.endswith(".py") and draft.has(one)), None)


def _test_changed(draft: Draft, kind: str, text: str) -> bool:
    path = _replaced_test(draft)
    assert path is not None
    if kind == "edit":
        return draft.append(path, text)
    if kind == "drop":
        (draft.folder / path).unlink()
    else:
        draft.put(path, text)
    return True


BEHAVIOUR = read_additions("behaviour.txt")
SURROUNDINGS = read_additions("surroundings.txt")
