"""Trains through a Tinker-style API: `python -m paddock.training.tinker FILE.yaml [KEY=VALUE ...]`.

Output  a line of JSON for each step.
"""

import asyncio
import sys
from pathlib import Path

import orjson

from paddock.errors import ConfigError
from paddock.training.tinker.loop import train
from paddock.training.tinker.settings import TinkerSettings, read_settings

USAGE = "usage: python -m paddock.training.tinker FILE.yaml [KEY=VALUE ...]"


async def run(settings: TinkerSettings) -> None:
    """Train to the end."""
    async for step in train(settings):
        sys.stdout.write(orjson.dumps(step._asdict()).decode() + "\n")
        sys.stdout.flush()


def main(words: list[str]) -> int:
    if not words:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        asyncio.run(run(read_settings(Path(words[0]), words[1:])))
    except ConfigError as error:
        sys.stderr.write(f"error: {error.message}\n{USAGE}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
