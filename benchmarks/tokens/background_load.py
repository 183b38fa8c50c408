"""Rollouts of another client, streamed while something is measured: a program that ends with its standard input.

Each goes on with a recorded rollout, its answers' chunks `PACE_US` apart; after `ANSWERS` of them it starts again.
"""

import argparse
import asyncio
import sys
from itertools import count
from pathlib import Path

import orjson

from benchmarks.tokens.primed_calls import ANSWER_IDS, PrimedCalls, PrimedRollout

PACE_US = 20_000
ANSWERS = 8


async def _stream(url: str, secret: str, primed: PrimedRollout, wait_s: float, end: asyncio.Event) -> None:
    await asyncio.sleep(wait_s)
    for nth in count():
        if nth % ANSWERS == 0:
            calls = PrimedCalls(secret, primed, url, url, PACE_US)
        if end.is_set():
            return
        await calls.ours()


async def _all(url: str, primed: PrimedRollout, secrets: list[str]) -> None:
    end = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, end.set)
    apart_s = PACE_US / 1e6 * ANSWER_IDS / 3 / len(secrets)
    async with asyncio.TaskGroup() as group:
        for nth, secret in enumerate(secrets):
            group.create_task(_stream(url, secret, primed, nth * apart_s, end))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--secrets", nargs="+", required=True)
    args = parser.parse_args()
    asyncio.run(_all(args.url, PrimedRollout(orjson.loads(args.history.read_bytes()), [], b""), args.secrets))


if __name__ == "__main__":
    main()
