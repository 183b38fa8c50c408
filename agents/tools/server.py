"""An agent of many turns: the model's calls go to the environment's tools and the agent's own until the model is done.

Row     `responses_create_params` is the first request; its `tools`, where it has any, are those that the model is
        shown, as the row describes them. Without any, all are shown.
Ends    an answer without calls, or a call of a tool that ends the rollout: `completed`. A limit, an answer that was
        cut, or a prompt longer than the model takes: `truncated`. Both are judged. Calls of a cut answer are not run.
Steps   with `environment_steps` each answer, whole, is an action that the environment replies to.
Session is seeded, called, judged and ended by its id; where the environment keeps none, `/verify` judges the response.
Answer  one response with all items: the model's, and the results of its calls. `harness` says what ended the run.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

from paddock.agents.tools.config import ToolsAgentConfig
from paddock.agents.tools.functions import FunctionSource
from paddock.agents.tools.loop import ToolLoop
from paddock.agents.tools.mcp_servers import McpServers
from paddock.agents.tools.simulated_user import SimulatedUser, UserPart
from paddock.agents.tools.sources import (
    ENVIRONMENT,
    EnvironmentSource,
    EnvironmentSteps,
    RolloutTools,
    ToolSource,
    refuse_unserved,
    row_tools,
    shown_names,
)
from paddock.errors import PaddockError, RequestError
from paddock.http import (
    END_SESSION,
    RESET,
    SEED,
    VERIFY,
    VERIFY_SESSION,
    Call,
    ModelReply,
    Peer,
    VerifyRequest,
)
from paddock.server import AgentServer, ResourcesServer
from paddock.server.rollout import RolloutRun
from paddock.server.rollout_model import RolloutModel
from paddock.types import JsonObject, Rollout, Row, Session

END_TIMEOUT_S = 30.0
"""Seconds to wait for a session's end; one that is not ended by then, its server ends."""


class ToolsAgent(AgentServer[ToolsAgentConfig]):
    config_type = ToolsAgentConfig

    def __init__(self, config: ToolsAgentConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._functions = FunctionSource(config.functions)
        self._mcp = McpServers(config)
        self._user_part = UserPart.read(config.user) if config.user else None

    async def start(self) -> None:
        await self._mcp.start()

    async def stop(self) -> None:
        await self._mcp.stop()

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("this agent works on rows: a request alone opens no session", kind="rows_only")

    def check_row(self, row: Row, environment: ResourcesServer[Any, Any]) -> None:
        shown, served = row_tools(row), environment.tool_names()
        if shown is None or served is None or self._mcp:
            return  # what MCP servers have is known when they run
        own = [str(tool["name"]) for tool in self._functions.tools]
        names = shown_names([(ENVIRONMENT, sorted(served)), (self._functions.name, own)])
        refuse_unserved(shown, frozenset(chain.from_iterable(names)))

    async def _run_stages(self, run: RolloutRun) -> None:
        with run.stage("seed"):
            route = RESET if self.config.environment_steps else SEED
            session = await self.resources.call(route, run.row, run.call)
        try:
            await self._act(run, session)
            with run.stage("verify"):
                request = VerifyRequest(row=run.row, response=run.response)
                if session.session_id is None:
                    run.verdict = await self.resources.call(VERIFY, request, run.call)
                else:
                    run.verdict = await self.resources.call(
                        VERIFY_SESSION, request, run.call, session=session.session_id
                    )
        finally:
            await self._end(session)

    async def _act(self, run: RolloutRun, session: Session) -> None:
        """Run the loop; what the rollout has opened for it is ended with it."""
        name = self.config.model_server.name
        async with AsyncExitStack() as stack:
            with run.stage("seed"):
                servers = await self._mcp.open(session, run.call, stack)
            sources: list[ToolSource] = [EnvironmentSource(self.resources, session), self._functions, *servers]
            tools = RolloutTools(sources, run.row, max_chars=self.config.max_result_chars)
            model = RolloutModel(self.model, run.call, secret=run.secret, name=name)
            steps = EnvironmentSteps(self.resources, session) if self.config.environment_steps else None
            loop = ToolLoop(self.config, run, model, tools, self._user(run, session), steps)
            run.response = await loop.run()
            run.truncated = loop.ended not in ("finished", None)

    def _user(self, run: RolloutRun, session: Session) -> SimulatedUser | None:
        if self._user_part is None:
            return None
        peer = self.peers[self._user_part.config.model_server.name]
        return SimulatedUser(self._user_part, peer, run.call, session)

    async def _end(self, session: Session) -> None:
        if session.session_id is None:
            return
        call = Call().within(END_TIMEOUT_S)
        try:
            await asyncio.shield(self.resources.call(END_SESSION, {}, call, session=session.session_id))
        except PaddockError:
            return  # the server ends by itself what it is not asked for any more
