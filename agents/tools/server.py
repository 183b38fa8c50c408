"""An agent whose tools are the environment's: the model's calls go to its resources server until the model is done.

Row     `responses_create_params` is the first request; its `tools`, where it has any, are those of the session's that
        the model is shown, as the row describes them. Without any, all are shown.
Ends    an answer without calls, or a call of a tool that ends the rollout: `completed`. A limit, an answer that was
        cut, or a prompt longer than the model takes: `truncated`. Both are judged. Calls of a cut answer are not run.
Session is seeded, called, judged and ended by its id; where the environment keeps none, `/verify` judges the response.
Answer  one response with all items: the model's, and the results of its calls. `harness` says what ended the run.
"""

import asyncio
from typing import Any

from paddock.agents.tools.config import ToolsAgentConfig
from paddock.agents.tools.loop import ToolLoop
from paddock.agents.tools.sources import EnvironmentSource, RolloutTools, refuse_unserved, row_tools
from paddock.errors import PaddockError, RequestError
from paddock.http import END_SESSION, SEED, VERIFY, VERIFY_SESSION, Call, ModelReply, VerifyRequest
from paddock.server import AgentServer, ResourcesServer
from paddock.server.rollout import RolloutRun
from paddock.server.rollout_model import RolloutModel
from paddock.types import JsonObject, Rollout, Row, Session

END_TIMEOUT_S = 30.0
"""Seconds to wait for a session's end; one that is not ended by then, its server ends."""


class ToolsAgent(AgentServer[ToolsAgentConfig]):
    config_type = ToolsAgentConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("this agent works on rows: a request alone opens no session", kind="rows_only")

    def check_row(self, row: Row, environment: ResourcesServer[Any, Any]) -> None:
        shown, served = row_tools(row), environment.tool_names()
        if shown is not None and served is not None:
            refuse_unserved(shown, served)

    async def _run_stages(self, run: RolloutRun) -> None:
        with run.stage("seed"):
            session = await self.resources.call(SEED, run.row, run.call)
        try:
            tools = self._tools_of(run.row, session)
            name = self.config.model_server.name
            loop = ToolLoop(self.config, run, RolloutModel(self.model, run.call, secret=run.secret, name=name), tools)
            run.response = await loop.run()
            run.truncated = loop.ended not in ("finished", None)
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

    def _tools_of(self, row: Row, session: Session) -> RolloutTools:
        sources = [EnvironmentSource(self.resources, session)]
        return RolloutTools(sources, row, max_chars=self.config.max_result_chars)

    async def _end(self, session: Session) -> None:
        if session.session_id is None:
            return
        call = Call().within(END_TIMEOUT_S)
        try:
            await asyncio.shield(self.resources.call(END_SESSION, {}, call, session=session.session_id))
        except PaddockError:
            return  # the server ends by itself what it is not asked for any more
