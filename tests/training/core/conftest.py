"""The benchmarks are no package of the project: tests find them beside `tests`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))
