"""The rewards of NeMo-Gym's math_with_judge for pairs of expected and given answers, by its own verifier function.

Run     under its interpreter: `python gym_verdicts.py HOW < PAIRS > REWARDS`, JSON both. HOW: `alone`, one process for
        all, as its function allows; `served`, as its server runs it, a process for each pair. A second line has the
        seconds and the CPU seconds that it took.
"""

import asyncio
import json
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

package = find_spec("nemo_gym")
assert package is not None
assert package.origin is not None
sys.path.insert(0, str(Path(package.origin).parent.parent / "resources_servers" / "math_with_judge"))
import app  # type: ignore[import-not-found]  # noqa: E402


def one_process(pairs: list[list[str]]) -> list[float]:
    verifier = app.math_metric(
        gold_extraction_target=(app.LatexExtractionConfig(),),
        pred_extraction_target=(app.ExprExtractionConfig(), app.LatexExtractionConfig()),
    )
    return [app._run_math_verify(verifier, expected, text)[0] for expected, text in pairs]


async def as_served(pairs: list[list[str]]) -> list[float]:
    cls = app.LibraryJudgeMathResourcesServer
    slots = asyncio.Semaphore(32)

    class ServedVerifier:
        _library_verifier_semaphore = slots
        _wait_for_library_verifier_process = staticmethod(cls._wait_for_library_verifier_process)
        config = SimpleNamespace(library_verifier_timeout_seconds=10.0)

    verify: Any = cls._verify_answer_with_library_async
    rewards = await asyncio.gather(*(verify(ServedVerifier, expected, text) for expected, text in pairs))
    return [reward for reward, _ in rewards]


def main() -> None:
    pairs = json.load(sys.stdin)
    started, before = time.perf_counter(), os.times()
    rewards = asyncio.run(as_served(pairs)) if sys.argv[1] == "served" else one_process(pairs)
    after = os.times()
    cpu_s = sum(after[:4]) - sum(before[:4])
    took = {"wall_s": time.perf_counter() - started, "cpu_s": cpu_s}
    sys.stdout.write(f"{json.dumps(rewards)}\n{json.dumps(took)}\n")


if __name__ == "__main__":
    main()
