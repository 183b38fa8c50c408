"""The floor of two workers: how much more two processes do at once than one, that share nothing but this machine.

Cores that are busy, or two threads of one, do less than twice as much; so do two workers then.
"""

import subprocess
import sys

SECONDS = 2.0


def two_over_one() -> float:
    """What two processes do at once over what one does alone."""
    return sum(_at_once(2)) / sum(_at_once(1))


def _at_once(count: int) -> list[int]:
    command = [sys.executable, "-m", "benchmarks.cluster.busy_loop", str(SECONDS)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    return [int(process.communicate()[0]) for process in processes]
