"""The rewards of NeMo-Gym's code_gen for pairs of tests and programs, by its own function.

Run     under its interpreter: `python gym_verdicts.py < PAIRS > REWARDS`, JSON both; two at a time, as its server with
        `num_processes: 2` has them. A second line has the seconds and the CPU seconds that it took.
"""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TIMEOUT_S = 6


package = find_spec("nemo_gym")
assert package is not None
assert package.origin is not None
sys.path.insert(0, str(Path(package.origin).parent.parent / "resources_servers" / "code_gen"))
from lcb_integration.compute_code_generation_metrics import (  # type: ignore[import-not-found]  # noqa: E402
    check_correctness,
)


def reward(pair: tuple[dict[str, Any], str]) -> float:
    tests, program = pair
    result, _ = check_correctness({"input_output": json.dumps(tests)}, program, TIMEOUT_S, debug=False)
    return float(all(one == True for one in result))  # noqa: E712 - as its server has it


def main() -> None:
    pairs = json.load(sys.stdin)
    started, before = time.perf_counter(), os.times()
    with ProcessPoolExecutor(2) as processes:
        rewards = list(processes.map(reward, pairs))
    after = os.times()
    took = {"wall_s": time.perf_counter() - started, "cpu_s": sum(after[:4]) - sum(before[:4])}
    sys.stdout.write(f"{json.dumps(rewards)}\n{json.dumps(took)}\n")


if __name__ == "__main__":
    main()
