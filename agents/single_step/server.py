"""One model call, one verdict: the agent of pivot rows. No tool is executed.

Row     `responses_create_params` is the history up to the step; it is sent as it is, with the block's arguments of the
        chat template.
Outcome `truncated` when a token budget cut the answer, or the prompt is longer than the model takes: then nothing is
        there to be judged; else `completed`; failures by their owner.
"""

from typing import Any, Literal

from pydantic import Field

from paddock.errors import RequestError, RowError
from paddock.http import PLAIN_RESPONSES, RESPONSES, SEED, VERIFY, Call, ModelReply, VerifyRequest
from paddock.server import AgentConfig, AgentServer, ResourcesServer
from paddock.server.dialects import is_overlong
from paddock.server.fields import Block
from paddock.server.rollout import RolloutRun, require_answer
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import is_cut, make_response


class SingleStepConfig(AgentConfig):
    tools: Literal["judge", "refuse"] = "judge"
    """Rows with tools: `judge`: a call is the step, and is judged; `refuse`: they are errors, because whoever made them
    means the calls to be run."""
    chat_template_kwargs: Block = Field(default={})
    """Arguments of the chat template, such as `enable_thinking`, over a row's own and under the server's."""


class SingleStepAgent(AgentServer[SingleStepConfig]):
    config_type = SingleStepConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    def check_row(self, row: Row, environment: ResourcesServer[Any, Any]) -> None:
        self._refuse_tools(row)

    def _refuse_tools(self, row: Row) -> None:
        if self.config.tools == "refuse" and row.responses_create_params.get("tools"):
            raise RowError(
                "responses_create_params.tools: this agent takes one step and runs no tool; with `tools: judge` in its "
                "block the call itself is judged",
                kind="tools_refused",
            )

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self.model.call(PLAIN_RESPONSES, body, call)

    async def _run_stages(self, run: RolloutRun) -> None:
        self._refuse_tools(run.row)
        with run.stage("seed"):
            await self.resources.call(SEED, run.row, run.call)
        with run.stage("model"):
            reply = await self._answer(run)
            if not isinstance(reply, dict):
                raise RowError("responses_create_params.stream: a rollout asks for whole answers", kind="stream_asked")
            run.response = require_answer(reply)
            run.truncated = is_cut(run.response)
        with run.stage("verify"):
            run.verdict = await self.resources.call(VERIFY, VerifyRequest(row=run.row, response=run.response), run.call)

    async def _answer(self, run: RolloutRun) -> ModelReply:
        request = self._request(run.row)
        try:
            return await self.model.call(RESPONSES, request, run.call, secret=run.secret)
        except RequestError as error:
            if not is_overlong(error):
                raise
            name = self.config.model_server.name
            return make_response([], request, model=name, incomplete_reason="max_output_tokens")

    def _request(self, row: Row) -> JsonObject:
        params, defaults = row.responses_create_params, self.config.chat_template_kwargs
        if not defaults:
            return params
        return {**params, "chat_template_kwargs": {**(params.get("chat_template_kwargs") or {}), **defaults}}
