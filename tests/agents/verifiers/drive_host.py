"""Runs under the interpreter that has verifiers: an episode that hangs in its setup, ended in one of three ways.

python -m tests.agents.verifiers.drive_host ENVIRONMENTS cancel|wait

Prints the scratch folder, then `hanging`. `cancel`: gives the episode up, runs another to its end, prints `ended`, and
waits to be killed; `wait`: waits to be killed at once.
"""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

from paddock.agents.verifiers.episodes import EpisodeHost
from paddock.types import JsonObject

SEAT = {"url": "http://127.0.0.1:9/v1", "key": "k"}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def job(cue: str) -> JsonObject:
    data = {"prompt": "Do it.", "cue": cue, "mark": "31557602"}
    return {"data": data, "model": "m", "seat": SEAT, "others": None}


async def main(environments: Path, then: str) -> None:
    env = {"agent": {"harness": {"id": "local_chat"}}}
    settings = {"environment": "faulty_task", "env": env, "seat": None, "host_commands": False}
    host = await EpisodeHost.start(settings, [environments])
    say(str(host.folder))
    async with aclosing(host.run(job("setup_hangs"))) as messages:
        async for message in messages:
            if message == {"stage": "setup"}:
                await asyncio.sleep(2)
                say("hanging")
                if then == "wait":
                    await asyncio.Event().wait()
                break
    async with aclosing(host.run(job("setup_raises"))) as messages:
        last = [message async for message in messages][-1]
    say(f"ended {last['record']['traces'][0]['errors'][0]['type']}")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
