"""The floor of whole rollouts: one process, one raw asyncio loop, no servers, no HTTP library.

Reads rows, posts each to the upstream over a bare connection, calls the same comparator function, appends a line.
Prints one JSON object: rollouts per second over the loop, and CPU milliseconds per rollout.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import uvloop

from benchmarks.floor_server import judge
from benchmarks.raw_http import RawConnection
from paddock.types import JsonObject


async def collect(rows: Iterator[bytes], url: str, comparator: str, out: Path, concurrency: int) -> int:
    done = 0
    with out.open("ab") as file:

        async def worker() -> None:
            nonlocal done
            async with RawConnection(url) as connection:
                for raw in rows:
                    line = orjson.loads(raw)
                    body = orjson.dumps({"model": "m", **line["responses_create_params"]})
                    answer: JsonObject = orjson.loads(await connection.post(url + "/v1/responses", body))
                    comparison = judge(comparator, {**line, "response": answer})
                    file.write(orjson.dumps({**line, "response": answer, "reward": comparison.reward}) + b"\n")
                    done += 1

        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return done


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--comparator", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    args = parser.parse_args()
    with args.rows.open("rb") as rows, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        started, cpu = time.perf_counter(), time.process_time()
        done = runner.run(collect(iter(rows), args.url, args.comparator, args.out, args.concurrency))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(orjson.dumps({"rollouts_per_s": done / seconds, "cpu_ms": cpu * 1e3 / done, "done": done}).decode())


if __name__ == "__main__":
    main()
