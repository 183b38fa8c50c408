"""A curriculum by measured pass rates: how often the rows of each difficulty come.

Pools   `easy`, `hard`, `normal` by the mean reward of the row's last group that could be compared, else by a rate that
        was measured before; a row without any is normal. Pools and thresholds are named as in prime-rl's buffer, whose
        fractions are parts of the prompts, however few rows a pool has; weights are of rows.
Law     a normal row comes once in each round of the rows, one of weight `w` in the part `w` of the rounds: in any `k`
        rounds in a row through which it has that weight, `w * k` times to within one. None with a weight above 0 is
        away for more than `1 / w` rounds, rounded up. Which rounds these are, the seed decides for each row. With
        weights of 1 rows come as without a curriculum.
Ages    it decides which rows start groups, and nothing else: a row that is passed over is not lost, and one whose group
        was lost is run again whatever its pool. So pools change the mixture of what starts, and of what starts no
        more is lost than without them.
Rewards are the environment's, of rollouts with a verdict; a failed one changes no rate.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Literal, get_args

from paddock.training.core.settings import CurriculumSettings
from paddock.types import JsonObject

Difficulty = Literal["easy", "normal", "hard"]
ROUNDING = 1e-9
"""Ten tenths are less than 1 in binary floating point."""
_NO_RATES: Mapping[int, float] = {}


class Curriculum:
    """The pass rates of a run's rows, and which rows come by them."""

    def __init__(self, settings: CurriculumSettings, *, seed: int, rates: Mapping[int, float] = _NO_RATES) -> None:
        """`rates`: mean rewards that were measured before, by the row's index."""
        self._settings = settings
        self._weights: Mapping[Difficulty, float] = {
            "easy": settings.easy_weight,
            "normal": 1.0,
            "hard": settings.hard_weight,
        }
        self._seed = seed
        self._rates = dict(rates)
        self._credit: dict[int, float] = {}
        """Of rows that were looked at while their weight was below 1: which part of their next turn they have."""
        self._drawn: Counter[Difficulty] = Counter()
        self._n_passed = 0

    def difficulty(self, row: int) -> Difficulty:
        rate = self._rates.get(row)
        if rate is None:
            return "normal"
        if rate >= self._settings.easy_threshold:
            return "easy"
        return "hard" if rate <= self._settings.hard_threshold else "normal"

    def may_come(self, row: int) -> bool:
        """Whether the row comes at all, now or in a later round."""
        return self._weights[self.difficulty(row)] > 0

    def comes(self, row: int) -> bool:
        """Whether the row comes in the round in which it is looked at; to be called once in each."""
        pool = self.difficulty(row)
        weight = self._weights[pool]
        if weight < 1:
            held = self._credit.get(row)
            credit = (self._phase(row) if held is None else held) + weight
            is_due = credit >= 1 - ROUNDING
            self._credit[row] = max(0.0, credit - is_due)
            if not is_due:
                self._n_passed += 1
                return False
        self._drawn[pool] += 1
        return True

    def measure(self, row: int, rate: float) -> None:
        """Note the mean reward of a group of the row."""
        self._rates[row] = rate

    def metrics(self, n_rows: int) -> dict[str, float]:
        """Rows by pool, how many came from each so far, and how often one was passed over."""
        sizes = Counter(map(self.difficulty, self._rates))
        sizes["normal"] += n_rows - len(self._rates)
        return {
            **{f"curriculum/{pool}": float(sizes[pool]) for pool in get_args(Difficulty)},
            "curriculum/unmeasured": float(n_rows - len(self._rates)),
            **{f"curriculum/drawn/{pool}": float(self._drawn[pool]) for pool in get_args(Difficulty)},
            "curriculum/passed_over": float(self._n_passed),
        }

    def to_wire(self) -> JsonObject:
        return {
            "rates": list(self._rates.items()),
            "credit": list(self._credit.items()),
            "drawn": dict(self._drawn),
            "passed": self._n_passed,
        }

    def restore(self, wire: JsonObject) -> None:
        """Go on as the curriculum did of which this is `to_wire`."""
        self._rates = dict(wire["rates"])
        self._credit = dict(wire["credit"])
        self._drawn = Counter(wire["drawn"])
        self._n_passed = wire["passed"]

    def _phase(self, row: int) -> float:
        return random.Random(f"{self._seed}/curriculum/{row}").random()


def make_curriculum(
    settings: CurriculumSettings, *, seed: int, rates: Mapping[int, float] = _NO_RATES
) -> Curriculum | None:
    """None where all rows come alike."""
    return Curriculum(settings, seed=seed, rates=rates) if settings.enabled else None
