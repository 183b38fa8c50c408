"""Makes rows of reasoning-gym's data sets, those that a reward can be learned from.

Usage   PYTHON -m paddock.resources_servers.reasoning_gym.make_rows --datasets NAME... --count N --seed S
        PYTHON: of an environment that has paddock and reasoning-gym. `--config JSON`: settings of the data sets.
        `--short`: the prompt is the question alone, and the answer is the whole reply (for small models).
Output  JSONL: N rows of each data set, the same for the same arguments. No question comes twice.
Refused an entry whose own answer does not score 1, for which nonsense is paid, or whose scorer raises; the data set is
        named on standard error with how many were refused and why. An entry is tried as JSON gives it.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from paddock.resources_servers.reasoning_gym.server import MAX_NONSENSE_SCORE, NONSENSE
from paddock.types import JsonObject

ASKED = "\nGive the final answer, and nothing else, inside <answer></answer>."


def problem_of(dataset: Any, entry: JsonObject) -> str | None:
    """Say why an entry can't be trained on; None: it can."""
    if entry["answer"] is None:
        return "has no answer"
    try:
        own = dataset.score_answer(answer=entry["answer"], entry=entry)
        paid = max(dataset.score_answer(answer=answer, entry=entry) for answer in NONSENSE)
    except Exception as error:  # noqa: BLE001 - of any of a hundred scorers
        return f"the scorer raises {type(error).__name__}"
    if own != 1.0:
        return "its own answer does not score 1"
    return "nonsense is paid" if paid > MAX_NONSENSE_SCORE else None


def make_rows(
    name: str, count: int, seed: int, settings: JsonObject, *, short: bool = False
) -> Iterator[JsonObject | str]:
    """Yield the usable rows of a data set, and for each entry that is refused why, up to `count` of both."""
    import reasoning_gym

    dataset = reasoning_gym.create_dataset(name, size=count, seed=seed, **settings)
    questions: set[str] = set()
    for index in range(count):
        given = dataset[index]
        # Sets, arrays and big numbers of an entry are no JSON: a row that could not be written is none.
        try:
            entry = json.loads(json.dumps({key: given[key] for key in ("question", "answer", "metadata")}))
        except TypeError:
            yield "its entries are no JSON"
            continue
        if entry["question"] in questions:
            continue
        questions.add(entry["question"])
        problem = problem_of(dataset, entry)
        yield problem or _row(entry, short=short)


def _row(entry: JsonObject, *, short: bool) -> JsonObject:
    prompt = entry["question"] if short else entry["question"] + ASKED
    return {"responses_create_params": {"input": [{"role": "user", "content": prompt}]}, **entry}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Print rows of reasoning-gym's data sets.")
    parser.add_argument("--datasets", nargs="+", default=["chain_sum", "basic_arithmetic", "spell_backward"])
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", type=json.loads, default={})
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args(words)
    for name in given.datasets:
        refused: Counter[str] = Counter()
        for row in make_rows(name, given.count, given.seed, given.config, short=given.short):
            if isinstance(row, str):
                refused[row] += 1
            else:
                sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
        for problem, times in refused.items():
            sys.stderr.write(f"{name}: {times} of {given.count} refused: {problem}\n")


if __name__ == "__main__":
    main()
