"""A user of the policy that a model plays: it replies to the policy's answers without calls until it is content.

Sight   its model gets the prompt of its part and the talk alone: the policy's texts as a user's, its own as an
        assistant's. It sees no call and no result. The policy sees the user's messages and nothing of its part.
Tokens  its calls belong to no rollout, so they are recorded nowhere; its messages are the policy's input.
Errors  InfraError for whatever its model does not do: never a reward. RowError where the part needs a field of the row
        that the environment does not show.
"""

import asyncio
from typing import NamedTuple

from paddock.agents.tools.config import SimulatedUserConfig
from paddock.errors import ConfigError, InfraError, PaddockError, RowError
from paddock.harness.prompts import Template
from paddock.http import PLAIN_RESPONSES, Call, Peer
from paddock.server.rollout import require_answer
from paddock.types import JsonObject, Session
from paddock.types.responses import is_cut, messages

VARIABLES = ("task", "stop_phrase")


class UserPart(NamedTuple):
    """What users of all rollouts have in common."""

    config: SimulatedUserConfig
    template: Template

    @classmethod
    def read(cls, config: SimulatedUserConfig) -> "UserPart":
        """Read the template. Raises ConfigError."""
        return cls(config, Template(config.prompt_template, "user.prompt_template", VARIABLES))


class SimulatedUser:
    """The user of one rollout."""

    def __init__(self, part: UserPart, peer: Peer, call: Call, session: Session) -> None:
        self.n_messages = 0
        self._config = part.config
        self._peer = peer
        self._call = call
        try:
            prompt = part.template.fill({"task": session.visible, "stop_phrase": part.config.stop_phrase})
        except ConfigError as error:
            raise RowError(f"{error.message}; the environment shows: {_names(session)}", kind="user_part") from error
        self._talk: list[JsonObject] = [{"role": "system", "content": prompt}]

    @property
    def is_spent(self) -> bool:
        """Whether it has said as much as it may."""
        return self.n_messages >= self._config.max_messages

    async def open(self) -> str | None:
        """Return its first message, which is its own; None: it is content before anything was said."""
        return await self.reply(self._config.greeting)

    async def reply(self, text: str) -> str | None:
        """Return its reply to the policy's text; None: it is content."""
        self._talk.append({"role": "user", "content": text})
        said = await self._ask()
        if self._config.stop_phrase in said:
            return None
        self.n_messages += 1
        self._talk.append({"role": "assistant", "content": said})
        return said

    async def _ask(self) -> str:
        # Its own call: the rollout's would name the policy's record.
        call = Call(deadline=self._call.deadline).within(self._config.timeout_s)
        body = {**self._config.responses_create_params, "input": list(self._talk)}
        name = self._config.model_server.name
        try:
            async with asyncio.timeout(call.remaining_s):
                reply = await self._peer.call(PLAIN_RESPONSES, body, call)
        except TimeoutError as error:
            raise InfraError(f"the user's model {name}: no answer in time", kind="timeout") from error
        except PaddockError as error:
            raise InfraError(
                f"the user's model {name}: {error.message}", kind=error.kind, retryable=error.retryable
            ) from error
        answer = require_answer(reply if isinstance(reply, dict) else {})
        said = "\n".join(messages(answer)).strip()
        if not said or is_cut(answer):
            raise InfraError(f"the user's model {name}: an answer without a whole message", kind="user_unusable")
        return said


def _names(session: Session) -> str:
    return ", ".join(session.visible) or "nothing"
