"""`python call_function.py PROGRAM NAME`, in a sandbox: calls one function with the JSON values on stdin, one a line.

The function's value is written to stdout as JSON; what the program itself writes goes to stderr. A class `Solution` is
made without arguments, and the function is a method of it. Names that such programs use without an import are there.
"""

import json
import os
import sys

PRELUDE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)
    arguments = [json.loads(line) for line in sys.stdin.read().split("\n")]
    sys.setrecursionlimit(50_000)
    names: dict[str, object] = {"__name__": "solution"}
    exec(PRELUDE, names)  # noqa: S102 - names for the program
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - no import that a program would pay for
        exec(compile(file.read(), sys.argv[1], "exec"), names)  # noqa: S102 - the program that is judged
    solution = names.get("Solution")
    owner = solution() if callable(solution) else None
    function = getattr(owner, sys.argv[2], None) or names[sys.argv[2]]
    assert callable(function)
    value = function(*arguments)
    with os.fdopen(out, "w") as file:
        json.dump(value, file)


if __name__ == "__main__":
    main()
