"""Where NeMo-Gym's package is, whose files a config may name: those of the interpreter that a variable names.

Nothing of it is run or imported.
"""

import os
from pathlib import Path

PYTHON_VARIABLE = "PADDOCK_NEMO_GYM_PYTHON"


def package_folder(python: Path | None = None) -> Path | None:
    """The folder with `resources_servers`, `responses_api_agents` and so on, of an interpreter; None: the variable's.
    None where there is no such folder."""
    if python is None:
        named = os.environ.get(PYTHON_VARIABLE)
        if not named:
            return None
        python = Path(named)
    found = sorted(python.absolute().parent.parent.glob("lib/python3*/site-packages/nemo_gym"))
    return found[0].parent if found else None
