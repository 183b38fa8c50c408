"""Transformations of where the code of a fix is, and of how its files are stored."""

import ast
from collections.abc import Callable
from pathlib import PurePosixPath

from tests.zoo.honest_patches.draft import Draft, Function, SourceFile, Transformation, is_plain
from tests.zoo.projects import git

NEIGHBOURS = (
    "testing_utils",
    "test_helpers",
    "self_test",
    "conftest_tools",
    "helpers_test",
    "tests",
    "test",
    "testing",
    "pytest_compat",
    "unittest_tools",
    "_internal",
    "spec",
    "tests.util",
    "testing.tools",
    "test.support",
    "tests.test_support",
)
"""Modules of a product whose names look like a test's."""
HELPERS = ("test_value", "tested", "test", "describe", "helper")
"""Functions beside the moved one."""


def moved_beside(draft: Draft) -> bool:
    """A function of the fix is in a new module, named like a test or what is beside one."""
    module = draft.chance.choice(NEIGHBOURS)
    for source, function in draft.functions():
        needed = _imports_of(source, function)
        folder = PurePosixPath(source.path).parent
        if needed is None or not is_plain(function) or function not in source.tree.body or function.decorator_list:
            continue
        if not draft.has(str(folder / "__init__.py")):
            continue
        path = folder.joinpath(*module.split(".")).with_suffix(".py")
        packages = {
            str(one / "__init__.py"): "" for one in path.parents if one.is_relative_to(folder) and one != folder
        }
        helper = draft.chance.choice(HELPERS)
        body = "".join(source.lines[function.lineno - 1 : function.end_lineno])
        text = f'"""Moved here."""\n\n{needed}\n\n{body}\n\ndef {helper}(value):\n    return value\n'
        if function.name == helper or not draft.new({**packages, str(path): text}):
            continue
        line = _import_line(draft, module, function.name)
        return draft.replace(source, function.lineno, (function.end_lineno or 0) + 1, line)
    return False


def shim(draft: Draft) -> bool:
    """A module has another name, and its old one is a shim."""
    name = draft.chance.choice(("impl", "core", "_testing", "test_impl", "base"))
    for source in draft.sources():
        path = PurePosixPath(source.path)
        defined = sorted(_defined(source.tree))
        new = str(path.with_name(f"{name}.py"))
        if path.stem == "__init__" or not draft.has(str(path.with_name("__init__.py"))) or draft.has(new):
            continue
        if not draft.subject.own or "__file__" in source.text:
            continue
        draft.put(new, source.text)
        words = ",\n    ".join(defined)
        draft.put(source.path, f"from .{name} import (  # noqa\n    {words},\n)\n")
        draft.fixed.append(new)
        return True
    return False


def package_made(draft: Draft) -> bool:
    """A module becomes a package."""
    for source in draft.sources():
        path = PurePosixPath(source.path)
        relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(source.tree))
        if path.stem == "__init__" or relative or not draft.subject.own or "__file__" in source.text:
            continue
        if not draft.has(str(path.with_name("__init__.py"))):
            continue
        new = str(path.with_suffix("") / "__init__.py")
        (draft.folder / source.path).unlink()
        draft.put(new, source.text)
        draft.fixed.append(new)
        return True
    return False


def another_way(draft: Draft) -> bool:
    """A fix that is written otherwise from the start."""
    if not draft.subject.ways:
        return False
    files = draft.subject.ways[draft.chance.choice(sorted(draft.subject.ways))]
    if not all(draft.has(path) for path in files if path in draft.fixed):
        return False
    for path, text in files.items():
        draft.put(path, text)
    draft.fixed += [path for path in files if path not in draft.fixed]
    return True


def two_ways(draft: Draft) -> bool:
    """Several files written otherwise."""
    names = sorted(draft.subject.ways)
    draft.chance.shuffle(names)
    taken: set[str] = set()
    for name in names:
        files = draft.subject.ways[name]
        if taken.isdisjoint(files):
            taken |= set(files)
            for path, text in files.items():
                draft.put(path, text)
    draft.fixed += sorted(taken - set(draft.fixed))
    return bool(taken)


def carriage_returns(draft: Draft) -> bool:
    return _stored(draft, lambda text: text.replace("\n", "\r\n"))


def byte_order_mark(draft: Draft) -> bool:
    return _stored(draft, lambda text: "\ufeff" + text, suffixes=(".py",))


def no_last_line_end(draft: Draft) -> bool:
    return _stored(draft, lambda text: text.rstrip("\n"))


def line_ends_at_end(draft: Draft) -> bool:
    return _stored(draft, lambda text: text + "\n\n\n", suffixes=(".py",))


def other_letters(draft: Draft) -> bool:
    return _stored(draft, lambda text: text + "\n\n# Größe, 大きさ, размер: \U0001f600\n", suffixes=(".py",))


def form_feeds(draft: Draft) -> bool:
    return _stored(draft, lambda text: text + "\n\f\n# The end.\n", suffixes=(".py",))


def coding_line(draft: Draft) -> bool:
    return _stored(draft, lambda text: "# -*- coding: utf-8 -*-\n" + text, suffixes=(".py",))


def licence_at_top(draft: Draft) -> bool:
    words = "# Copyright the authors. PASSED on to you under the licence in LICENSE.\n# It FAILED to be sold.\n"
    return _stored(draft, lambda text: words + text, suffixes=(".py",))


def tabs(draft: Draft) -> bool:
    """Blocks are indented by tabs."""
    for source in draft.sources():
        texts = (node for node in ast.walk(source.tree) if isinstance(node, ast.Constant | ast.JoinedStr))
        if any(node.end_lineno != node.lineno for node in texts):
            continue
        lines = []
        for line in source.lines:
            bare = line.lstrip(" ")
            blanks = len(line) - len(bare)
            lines.append("\t" * (blanks // 4) + " " * (blanks % 4) + bare)
        made = "".join(lines)
        if made == source.text:
            continue
        try:
            ast.parse(made)
        except SyntaxError:
            continue
        draft.put(source.path, made)
        return True
    return False


def executable(draft: Draft) -> bool:
    """A file of the fix may be run."""
    draft.fixed.sort()
    path = draft.folder / draft.chance.choice([path for path in draft.fixed if draft.has(path)])
    if path.stat().st_mode & 0o100:
        return False
    path.chmod(0o755)
    return True


def readme_renamed(draft: Draft) -> bool:
    for old in ("README.md", "README.rst", "CHANGES.rst", "CHANGELOG.md"):
        if draft.has(old) and not draft.has(f"docs/{old}") and draft.subject.own:
            (draft.folder / "docs").mkdir(exist_ok=True)
            git(draft.folder, "mv", old, f"docs/{old}")
            return True
    return False


def _stored(draft: Draft, make: Callable[[str], str], suffixes: tuple[str, ...] = (".py", ".c", ".h")) -> bool:
    paths = [path for path in sorted(draft.fixed) if path.endswith(suffixes) and draft.has(path)]
    draft.chance.shuffle(paths)
    for path in paths:
        text = draft.read(path)
        if "\r" in text or text.startswith("\ufeff") or path in draft.subject.tests:
            continue
        made = make(text)
        if made == text:
            continue
        draft.put(path, made)
        return True
    return False


def _import_line(draft: Draft, module: str, name: str) -> str:
    """The moved function under its name again."""
    folder, _, last = module.rpartition(".")
    return draft.chance.choice(
        (
            f"from .{module} import {name}  # noqa\n",
            f"from .{folder} import {last} as _moved  # noqa\n\n{name} = _moved.{name}\n",
            f"from .{module} import (  # noqa\n    {name},\n)\n",
            f"import importlib\n\n{name} = importlib.import_module('.{module}', __package__).{name}\n",
            f"from .{folder} import (  # noqa\n    {last},\n)\n\n{name} = {last}.{name}\n",
            f"def {name}(*args, **kwargs):\n    from .{module} import {name}\n\n    return {name}(*args, **kwargs)\n",
        )
    )


def _imports_of(source: SourceFile, function: Function) -> str | None:
    """The imports that a function needs to stand alone; None where it needs more of its module."""
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    lines = []
    for node in source.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {(one.asname or one.name).split(".")[0] for one in node.names}
            if not names & used:
                continue
            if isinstance(node, ast.ImportFrom) and node.level:
                return None
            lines.append(ast.unparse(node))
    others = _defined(source.tree, imports=False) - {function.name}
    if others & used or "__file__" in used or "__name__" in used:
        return None
    return "\n".join([*lines, ""])


def _defined(tree: ast.Module, *, imports: bool = True) -> set[str]:
    """Names that a module's own statements make."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).split(".")[0] for one in node.names} if imports else set()
        else:
            stored = (one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
            found |= {one.id for one in stored}
    return found


PLACES: tuple[Transformation, ...] = (
    moved_beside,
    shim,
    package_made,
    another_way,
    two_ways,
    carriage_returns,
    byte_order_mark,
    no_last_line_end,
    line_ends_at_end,
    other_letters,
    form_feeds,
    coding_line,
    licence_at_top,
    tabs,
    executable,
    readme_renamed,
)
