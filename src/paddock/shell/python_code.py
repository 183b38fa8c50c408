"""What Python source may do, by the calls that it names: best effort, since a name can be built at run time.

Law     a call that removes files or ends processes destroys; a literal command that is run is handed on; all else is
        unknown.
Errors  none: source that does not parse is unknown.
"""

import ast
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence

from paddock.shell.danger import Harm, ScriptText
from paddock.shell.memo import once, take

_CALLS = {
    "os": {"remove", "unlink", "rmdir", "removedirs", "kill", "killpg", "truncate", "abort"},
    "shutil": {"rmtree"},
}
_RUNNERS = {
    "os": {"system", "popen"},
    "subprocess": {"run", "call", "check_call", "check_output", "Popen", "getoutput"},
}
_METHODS = {"unlink", "rmdir", "rmtree"}


_TOKEN = re.compile(r"\w+|[^\w\s]|\n+")
_TOKENS_PER_STEP, _DUMPED_TOKENS_PER_STEP = 3, 5


def count_tokens(code: str) -> int:
    """About how many tokens source has: as many as its tree has nodes."""
    return sum(1 for _ in _TOKEN.finditer(code))


def parse_python(code: str) -> ast.Module | None:
    """The tree of Python source, which nobody changes; None: it is none."""
    return once(("python", code), lambda: _parse(code))


def _parse(code: str) -> ast.Module | None:
    take(count_tokens(code) // _TOKENS_PER_STEP)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def take_for_dump(code: str) -> None:
    """Take the steps in which the tree of a source is written as text."""
    take(2 + count_tokens(code) // _DUMPED_TOKENS_PER_STEP)


def dump_python(code: str) -> str | None:
    """The tree of Python source as text; None: it is none."""
    tree = parse_python(code)
    if tree is None:
        return None
    take_for_dump(code)
    try:
        return ast.dump(tree)
    except RecursionError:
        return None


def python_harm(code: str) -> Harm | ScriptText:
    """Python source by the calls that it names."""
    tree = parse_python(code)
    if tree is None:
        return Harm("unknown", "Python that does not parse")
    calls: list[ast.Call] = []
    imported: dict[str, tuple[str, str]] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call():
                calls.append(node)
            case ast.ImportFrom(module, names):
                imported.update((alias.asname or alias.name, (module or "", alias.name)) for alias in names)
            case ast.Import(names):
                modules.update((alias.asname, alias.name) for alias in names if alias.asname)
    for call in calls:
        module, function = _callee(call.func, imported)
        module = modules.get(module, module)
        if function in _CALLS.get(module, ()) or (isinstance(call.func, ast.Attribute) and function in _METHODS):
            return Harm("destroys", f"Python that calls {function}")
        if function in _RUNNERS.get(module, ()) and (text := _literal_command(call)):
            return ScriptText(text)
    return Harm("unknown", "a Python program")


def _callee(function: ast.expr, imported: dict[str, tuple[str, str]]) -> tuple[str, str]:
    if isinstance(function, ast.Attribute):
        return (function.value.id if isinstance(function.value, ast.Name) else "", function.attr)
    return imported.get(function.id, ("", function.id)) if isinstance(function, ast.Name) else ("", "")


def _literal_command(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    if isinstance(first, (ast.List, ast.Tuple)):
        return " ".join(_quoted(first.elts))
    return None


def _quoted(elements: Sequence[ast.expr]) -> Iterator[str]:
    for element in elements:
        is_text = isinstance(element, ast.Constant) and isinstance(element.value, str)
        yield shlex.quote(ast.literal_eval(element)) if is_text else '"$unknown"'
