"""Sizes and names: what the linters don't look at. Prints each offender and exits 1.

Sizes   no Python file over 500 lines, no function over 60.
Names   a class name stands in one module (of the product, for the product's) and is no participle (`Told`), and a file
        is not named by a gerund that is no term of the field.
Modules what `__all__` lists is bound in its module; no module is run by its path from another folder.
"""

import ast
import gc
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
PRODUCT = ("src/", "agents/", "harnesses/", "lab/", "models_servers/", "resources_servers/", "training/")
TERMS = frozenset(
    {"grading", "learning", "logging", "packing", "parsing", "routing", "sampling", "scoring", "serving", "sharding"}
)
TERMS |= {"streaming", "testing", "training"}
PARTICIPLES = """
Added Asked Begun Built Called Checked Chosen Composed Covered Ended Expected Failed Fetched Finished Found
Given Got Heard Held Installed Joined Judged Kept Known Left Loaded Lost Made Matched Meant Opened Placed
Planned Played Read Received Refused Resolved Ruled Said Scanned Seen Sent Served Settled Shown Started Stored
Swept Taken Taught Told Translated Tried Trained Validated Wanted Written
Counted Denied Detached Exhausted Killed Overlaid Pruned Rejoined Turned Unpacked Watched
"""
PARTICIPLE = re.compile(rf"_?(?:{'|'.join(PARTICIPLES.split())})")
BY_PATH = re.compile(r"__file__\)(?:\.resolve\(\))?\.(?:parents\[\d+\]|parent\.parent)[^\n]*\.py\"")


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A Python file of the repository."""

    name: str
    """Its path from the root."""
    text: str
    tree: ast.Module
    definitions: Sequence[Definition]

    @property
    def classes(self) -> Iterator[str]:
        return (node.name for node in self.definitions if isinstance(node, ast.ClassDef))


def definitions(body: Iterable[ast.AST]) -> Iterator[Definition]:
    """All in statements, at any depth; expressions, of which there are millions, have none."""
    for node in body:
        if isinstance(node, Definition):
            yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from definitions(getattr(node, field, ()))


def too_long(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{module.name}: {lines} lines, at most {MAX_FILE_LINES}"
    for node in module.definitions:
        if not isinstance(node, ast.ClassDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{module.name}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"


def unbound(module: Module) -> Iterator[str]:
    """Names of `__all__` that the module does not bind; one with `__getattr__` may bind them later."""
    bound: set[str] = set()
    listed: list[str] = []
    for node in module.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            bound |= names
            if "__all__" in names and isinstance(node.value, ast.List):
                listed = [str(item.value) for item in node.value.elts if isinstance(item, ast.Constant)]
    if "__getattr__" in bound:
        return
    yield from (f"{module.name}: `__all__` lists {name}, which is not there" for name in listed if name not in bound)


def run_by_path(module: Module) -> Iterator[str]:
    for match in BY_PATH.finditer(module.text):
        line = module.text.count("\n", 0, match.start()) + 1
        yield f"{module.name}:{line}: another folder's module by its path: imports can't be checked"


def badly_named(modules: Sequence[Module]) -> Iterator[str]:
    everywhere, in_product = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for module in modules:
        for name in module.classes:
            everywhere[name].add(module.name)
            if module.name.startswith(PRODUCT):
                in_product[name].add(module.name)
    for module in modules:
        places = in_product if module.name.startswith(PRODUCT) else everywhere
        stem = Path(module.name).stem.removeprefix("test_")
        if stem.endswith("ing") and stem not in TERMS:
            yield f"{module.name}: a file is named by what is in it"
        for name in module.classes:
            if PARTICIPLE.fullmatch(name):
                yield f"{module.name}: class {name}: a participle is no noun"
            if len(places[name]) > 1:
                others = ", ".join(sorted(places[name] - {module.name}))
                yield f"{module.name}: class {name} stands in {others}, too"


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    modules = []
    gc.disable()  # the trees all stay
    for name in listed.stdout.split():
        if Path(name).is_file():
            text = Path(name).read_text()
            tree = ast.parse(text)
            modules.append(Module(name, text, tree, list(definitions(tree.body))))
    product = [module for module in modules if module.name.startswith(PRODUCT)]
    found = [line for module in modules for line in too_long(module)]
    found += [line for module in product for line in (*unbound(module), *run_by_path(module))]
    found += badly_named(modules)
    print("\n".join(found) or "sizes and names: ok")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
