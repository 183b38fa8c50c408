"""Rewards that NeMo-Gym's own servers give, where an environment with its package is."""

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

PROGRAM = Path(__file__).with_name("verify_nemo_gym.py")


def interpreter(variable: str, what: str) -> str:
    """The interpreter that an environment variable names; the test is skipped where there is none."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no interpreter of an environment with {what}")
    return found


async def their_rewards(
    python: str, server: str, bodies: Sequence[JsonObject], config: JsonObject | None = None
) -> list[float | None]:
    """Rewards of `server` (`module:Class`) for bodies of `/verify`; None where it raised."""
    given = {"server": server, "config": config or {}, "bodies": list(bodies)}
    ran = await asyncio.to_thread(
        subprocess.run,
        [python, str(PROGRAM)],
        input=json.dumps(given).encode(),
        env={**os.environ, "PYTHONPATH": "", "WANDB_MODE": "disabled"},
        check=True,
        capture_output=True,
    )
    rewards: list[float | None] = json.loads(ran.stdout)["rewards"]
    return rewards


def body(row: JsonObject, *texts: str) -> dict[str, Any]:
    """A body of `/verify`: the row and a response of messages."""
    items = [message_item(text) for text in texts]
    return {**row, "response": make_response(items, row["responses_create_params"], model="policy")}
