"""A real OpenEnv server, under the interpreter that has it: `python counting_server.py PORT SESSIONS`.

Counts to the seed: an action adds to the count; the reward is 1 where it hits the seed, -1 where it is beyond.
"""

import sys
from uuid import uuid4

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class CountAction(Action):
    add: int = Field(ge=0, le=99)


class CountObservation(Observation):
    count: int


class CountEnvironment(Environment[CountAction, CountObservation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.count, self.wanted = 0, 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.count, self.wanted = 0, seed or 10
        return CountObservation(count=0)

    def step(self, action, timeout_s=None, **kwargs):
        if action.add == 66:
            raise RuntimeError("cued to fail")
        self.count += action.add
        reward = 1.0 if self.count == self.wanted else -1.0 if self.count > self.wanted else 0.25
        return CountObservation(count=self.count, done=self.count >= self.wanted, reward=reward)

    @property
    def state(self):
        return State(episode_id=str(uuid4()))


if __name__ == "__main__":
    app = create_fastapi_app(CountEnvironment, CountAction, CountObservation, max_concurrent_envs=int(sys.argv[2]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
