"""Runs a script of NeMo-RL's with our environments in it: `python -m paddock.training.nemo_rl [--actor] SCRIPT ...`.

Without `--actor` NeMo-RL's own actor imports our `nemo_gym` (`shims/` on PYTHONPATH); with it, it is ours. See
`install`. Exits 2 where that can't be.
"""

import runpy
import sys
from pathlib import Path

from paddock.errors import ConfigError
from paddock.training.nemo_rl.install import use_actor, use_shim

USAGE = "usage: python -m paddock.training.nemo_rl [--actor] SCRIPT [ARGUMENT ...]"


def main(arguments: list[str]) -> None:
    own = arguments[:1] == ["--actor"]
    script = arguments[own:]
    if not script or not Path(script[0]).is_file():
        sys.exit(f"{USAGE}\nno script {script[0]!r}" if script else USAGE)
    try:
        (use_actor if own else use_shim)()
    except ConfigError as error:
        sys.stderr.write(f"error: {error.message}\n")
        sys.exit(2)
    sys.argv = script
    sys.path.insert(0, str(Path(script[0]).resolve().parent))
    runpy.run_path(script[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
