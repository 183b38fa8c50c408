"""Makes entries of many data sets of reasoning-gym with several answers each, and scores them by the library itself.

Run     under the interpreter of an environment with paddock and reasoning-gym. Standard output, JSON: a list of
        `{"row", "answer", "score"}`, of rows that `make_rows` gives.
"""

import contextlib
import json
import random
import sys

import reasoning_gym

from paddock.resources_servers.reasoning_gym.make_rows import make_rows

DATASETS = (
    *(
        "chain_sum",
        "basic_arithmetic",
        "gcd",
        "lcm",
        "leg_counting",
        "letter_counting",
        "number_sorting",
        "base_conversion",
    ),
    *(
        "caesar_cipher",
        "count_bits",
        "count_primes",
        "decimal_arithmetic",
        "simple_equations",
        "word_sorting",
        "countdown",
    ),
    *("family_relationships", "products", "fraction_simplification", "knights_knaves", "isomorphic_strings", "maze"),
    *("polynomial_equations", "time_intervals", "calendar_arithmetic", "number_filtering", "string_manipulation"),
)
ROWS = 4


def main() -> None:
    chance = random.Random(3)
    cases = []
    with contextlib.redirect_stdout(sys.stderr):
        for name in DATASETS:
            dataset = reasoning_gym.create_dataset(name, size=1, seed=0)
            rows = [row for row in make_rows(name, ROWS, 5, {}) if not isinstance(row, str)]
            for row in rows:
                own, other = row["answer"], chance.choice(rows)["answer"]
                for answer in (own, f" {own}.", own.upper(), other, own[:-1] or "x", "12", "I don't know"):
                    entry = {key: row[key] for key in ("question", "answer", "metadata")}
                    with contextlib.suppress(Exception):
                        score = float(dataset.score_answer(answer=answer.strip(), entry=entry))
                        cases.append({"row": row, "answer": answer, "score": score})
    json.dump(cases, sys.stdout)


if __name__ == "__main__":
    main()
