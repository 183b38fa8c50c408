"""`python -m paddock.testing.upstream`: the scripted server as a process of its own, until it is stopped.

Prints its base URL on one line when it listens.
"""

import argparse
import asyncio
import signal

import uvloop

from paddock.testing.upstream import ErrorStatus, Faults, ScriptedAnswer, ScriptedUpstream, share


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paddock.testing.upstream")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--delay-s", type=float, default=0.0, help="before each answer")
    parser.add_argument("--event-delay-s", type=float, default=0.0, help="before each event of a stream")
    parser.add_argument("--text", default="", help="what the model says")
    parser.add_argument("--reasoning", default="", help="what it thinks first")
    parser.add_argument("--call", nargs=2, action="append", default=[], metavar=("NAME", "ARGUMENTS"))
    parser.add_argument("--failing-share", type=float, default=0.0, help="share of calls that fail, from 0 to 1")
    parser.add_argument("--status", type=int, default=500, help="of the calls that fail")
    parser.add_argument("--seed", type=int, default=0, help="decides which calls fail")
    args = parser.parse_args()
    calls = tuple((name, raw) for name, raw in args.call)
    answer = ScriptedAnswer(args.text or ("" if calls else "ok"), calls, args.reasoning)
    faults = share(args.failing_share, ErrorStatus(args.status), seed=args.seed) if args.failing_share else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(answer, faults, args))


async def _serve(answer: ScriptedAnswer, faults: Faults | None, args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    upstream = ScriptedUpstream(
        answer, faults=faults, delay_s=args.delay_s, event_delay_s=args.event_delay_s, port=args.port
    )
    async with upstream:
        print(upstream.url, flush=True)  # noqa: T201 - the command's output
        await stop.wait()


if __name__ == "__main__":
    main()
