"""Scores an answer by reasoning-gym; loaded by path in checking processes, so it imports nothing of the package.

Request `[answer, entry]`: `entry` as its data sets give them (`question`, `answer`, `metadata` with `source_dataset`).
Reply   `{"score", "problem"}`: what the data set's `score_answer` returned, as it is; `problem` is `costly` where it
        ran out of memory or depth, else what it raised, else empty.
"""

import importlib
import logging
import warnings
from functools import lru_cache
from typing import Any

NO_DATASET = "no such data set"


def warm() -> None:
    """Load the library, which takes seconds."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    importlib.import_module("reasoning_gym")


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
