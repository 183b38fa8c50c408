"""A game on NeMo-Gym's base of stepped servers: count up to the row's goal; under NeMo-Gym's interpreter."""

# mypy: ignore-errors

import json

from fastapi import HTTPException
from nemo_gym.base_resources_server import BaseResourcesServerConfig
from resources_servers.gymnasium import GymnasiumServer, extract_text  # noqa: TID251 - of NeMo-Gym's package

MAX_STEPS = 6


class CountingGame(GymnasiumServer):
    """Calls of `add`, or a number as text; each step costs 0.1, too far costs 1, the goal pays 1."""

    config: BaseResourcesServerConfig

    async def reset(self, metadata, session_id=None):
        self.session_state[session_id] = {"count": 0, "steps": 0}
        return (f"Count to {metadata['goal']}." if metadata["speaks"] else None), {}

    async def step(self, action, metadata, session_id=None):
        state = self.session_state[session_id]
        calls = [item for item in action.output if item.type == "function_call"]
        text = extract_text(action).strip()
        if not calls and not text.isdecimal():
            raise HTTPException(status_code=400, detail="Say a number, or call `add`.")
        outputs = []
        for call in calls:
            state["count"] += int(json.loads(call.arguments)["by"])
            outputs.append(self.tool_output(call, {"count": state["count"]}))
        state["count"] += 0 if calls else int(text)
        state["steps"] += 1
        info = {"tool_outputs": outputs, "count": state["count"]}
        if state["count"] == metadata["goal"]:
            return "Done.", 1.0 - 0.1, True, False, info
        if state["count"] > metadata["goal"]:
            return None, -1.0 - 0.1, True, False, info
        if state["steps"] == MAX_STEPS:
            return None, -0.1, False, True, info
        return (None if calls else f"You are at {state['count']}."), -0.1, False, False, info
