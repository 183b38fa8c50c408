"""Plays scripted episodes by OpenEnv's own client: `python play_actions.py URL`, scripts as JSON on stdin."""

import asyncio
import json
import sys

from openenv.core.generic_client import GenericEnvClient


async def play(url, seed, adds):
    steps = []
    async with GenericEnvClient(base_url=url) as client:
        await client.reset(seed=seed)
        for add in adds:
            try:
                result = await client.step({"add": add})
            except RuntimeError:
                steps.append(None)
                continue
            steps.append([result.observation, result.reward, result.done])
            if result.done:
                break
    return steps


async def main():
    scripts = json.load(sys.stdin)
    json.dump([await play(sys.argv[1], seed, adds) for seed, adds in scripts], sys.stdout)


asyncio.run(main())
