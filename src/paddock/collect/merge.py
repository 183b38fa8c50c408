"""Putting the shards of one run together.

Law     shards are of one run: same config, rows, repeats and selection, same number of shards, each shard once. What
        comes out is what one collector would have written, rows in order, and can be resumed if it was not complete.
Errors  ConfigError that names the folder and what differs.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from paddock.collect.endings import Ending
from paddock.collect.folder import CONFIG, FAILURES, INDEX, RESULTS, ROLLOUTS, RUN, has_run, locked, write_json, write_whole
from paddock.collect.identity import RunIdentity, differences
from paddock.collect.journal import result_line
from paddock.collect.recovery import Recovered, recover, to_line
from paddock.collect.run import Collected, read_identity, read_summary, summarise
from paddock.collect.tally import Pace
from paddock.errors import ConfigError
from paddock.types import JsonObject


class _Shard(NamedTuple):
    folder: Path
    identity: RunIdentity
    found: Recovered


def merge(folders: Sequence[Path], out: Path) -> Collected:
    raise NotImplementedError
