"""Scores an answer by reasoning-gym; loaded by path in checking processes, so it imports nothing of the package.

Request `[answer, entry]`: `entry` as its data sets give them (`question`, `answer`, `metadata` with `source_dataset`).
Reply   `{"score", "problem"}`: what the data set's `score_answer` returned, as it is; `problem` is `costly` where it
        ran out of memory or depth, else what it raised, else empty.
Eval    some scorers evaluate the answer, which is the policy's, as Python or by sympy's parser. Here that takes
        literals, names, arithmetic and calls of mathematical functions alone: `__import__` runs nothing, and
        `Integral(...)` does not solve an integral.
"""

import ast
import builtins
import importlib
import logging
import sys
import warnings
from functools import lru_cache
from typing import Any

NO_DATASET = "no such data set"
_PARSER = "sympy.parsing.sympy_parser"
_NODES = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.List, ast.Tuple, ast.Call),
    *(ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop),
)
_CALLED = ("Integer", "Float", "Rational", "Symbol", "sqrt", "cbrt", "root", "abs")
"""What may be called, beside sympy's functions: also what its parser writes around numbers and names."""


def warm() -> None:
    """Load the library, which takes seconds."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    importlib.import_module("reasoning_gym")
    for name, module in list(sys.modules.items()):
        if name == _PARSER or name.partition(".")[0] == "reasoning_gym":
            module.__dict__["eval"] = evaluate


def evaluate(source: str, names: dict[str, Any] | None = None, nearer: dict[str, Any] | None = None) -> Any:
    """Evaluate an expression as `eval` does. Raises ValueError where it has or calls what it may not."""
    known = {**(names or {}), **(nearer or {})}
    tree = ast.parse(source.strip(), mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ValueError(f"{type(node).__name__} in an answer")
        if isinstance(node, ast.Call) and not _may_be_called(node.func, known):
            raise ValueError("a call of what is no mathematical function")
    return builtins.eval(  # noqa: S307 - of what is let through above
        compile(tree, "answer", "eval"), names if names is not None else {"__builtins__": {}}, nearer
    )


def _may_be_called(function: ast.expr, known: dict[str, Any]) -> bool:
    if not isinstance(function, ast.Name):
        return False
    value = known.get(function.id)
    mathematical = importlib.import_module("sympy").Function
    return function.id in _CALLED or (isinstance(value, type) and issubclass(value, mathematical))


@lru_cache(maxsize=256)
def _scorer(name: str) -> Any:
    return importlib.import_module("reasoning_gym").get_score_answer_fn(name)


def check(request: list[Any]) -> dict[str, Any]:
    """Score one answer."""
    answer, entry = request
    try:
        score = _scorer(entry["metadata"]["source_dataset"])
    except ValueError:
        return {"score": None, "problem": NO_DATASET}
    try:
        value = score(answer=answer, entry=entry)
        return {"score": value if isinstance(value, str | bool | None) else float(value), "problem": ""}
    except (MemoryError, RecursionError):
        return {"score": None, "problem": "costly"}
    except Exception as error:  # noqa: BLE001 - of any of a hundred scorers
        return {"score": None, "problem": f"{type(error).__name__}: {str(error)[:200]}"}
