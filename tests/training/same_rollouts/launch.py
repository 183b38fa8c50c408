"""`python launch.py MODULE WORD...`: a module of this repository's tests as the main one, whatever else is `tests`.

Reason  verl's environment has a package `tests` of another project, which goes before a folder without `__init__.py`.
"""

import runpy
import sys
from pathlib import Path
from types import ModuleType


def main(module: str) -> None:
    tests = ModuleType("tests")
    tests.__path__ = [str(Path(__file__).parents[2])]
    sys.modules["tests"] = tests
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
