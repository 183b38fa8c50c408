"""`python -m benchmarks.cluster.busy_loop SECONDS`: parses and writes JSON for so long, and prints how often."""

import sys
import time

import orjson


def main() -> None:
    text = orjson.dumps({str(nth): [nth] * 10 for nth in range(200)})
    until, done = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < until:
        orjson.dumps(orjson.loads(text))
        done += 1
    print(done)


if __name__ == "__main__":
    main()
