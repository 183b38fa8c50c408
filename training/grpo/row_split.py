"""The rows of the training file that are validated on, and not trained on: `data.train.split_validation_size`.

Source  NVIDIA-NeMo/RL, `nemo_rl/data/datasets/raw_dataset.py`, which has Hugging Face's `Dataset.train_test_split` draw
        them: here are the same rows, in the same order.
Law     the number of rows, the size and the seed alone decide. Rows keep their index in the file.
Errors  ConfigError where no row would be left to train on, and where numpy is missing, which draws them.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.training.grpo.sinks import require


class HeldOutSplit(NamedTuple):
    """The rows of a training file, by index."""

    train: Sequence[int]
    """As in the file."""
    validation: Sequence[int]
    """As they were drawn, so that the first ones are a sample too; empty: there is no split."""


def split_rows(n_rows: int, size: float, seed: int) -> HeldOutSplit:
    """`size`: below 1 the share of the rows that is held out, rounded up; else how many."""
    if not size:
        return HeldOutSplit(range(n_rows), ())
    count = ceil(size * n_rows) if size < 1 else int(size)
    if count >= n_rows:
        raise ConfigError(
            f"data.train.split_validation_size ({size:g}) is {count} of {n_rows} rows, which leaves none to train on: "
            "take a smaller one",
            kind="rows_missing",
        )
    # Plans are made without the packages of training, too.
    require("numpy", "data.train.split_validation_size")
    from numpy.random import default_rng

    drawn = default_rng(seed).permutation(n_rows).tolist()
    return HeldOutSplit(sorted(drawn[count:]), drawn[:count])
