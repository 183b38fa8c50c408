"""An agent whose tools are the environment's: the model's calls go to its resources server until the model is done.

Row     `responses_create_params` is the first request; its `tools`, where it has any, are those of the session's that
        the model is shown, as the row describes them. Without any, all are shown.
Ends    an answer without calls, or a call of a tool that ends the rollout: `completed`. A limit, an answer that was
        cut, or a prompt longer than the model takes: `truncated`. Both are judged. Calls of a cut answer are not run.
Session is seeded, called, judged and ended by its id; where the environment keeps none, `/verify` judges the response.
Answer  one response with all items: the model's, and the results of its calls. `harness` says what ended the run.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from paddock.agents.tools.config import ToolsAgentConfig
from paddock.errors import PaddockError, RequestError, RowError
from paddock.harness import ContextExceeded, Exit
from paddock.harness.contract import ExitReason, MalformedCall
from paddock.harness.native.tool_calls import tool_calls_of, with_call_ids
from paddock.harness.native.toolbox import RawToolCall
from paddock.http import (
    CALL_TOOL,
    END_SESSION,
    SEED,
    VERIFY,
    VERIFY_SESSION,
    Call,
    ModelReply,
    SessionCall,
    SessionCallResult,
    VerifyRequest,
)
from paddock.server import AgentServer
from paddock.server.rollout import RolloutRun
from paddock.server.rollout_model import RolloutModel
from paddock.types import JsonObject, Rollout, Row, Session, Usage
from paddock.types.responses import is_cut, make_response, messages, new_id, usage_of

HARNESS = "harness"
"""Key of the response: how the run ended."""
END_TIMEOUT_S = 30.0
"""Seconds to wait for a session's end; one that is not ended by then, its server ends."""


class ToolsAgent(AgentServer[ToolsAgentConfig]):
    config_type = ToolsAgentConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("this agent works on rows: a request alone opens no session", kind="rows_only")

    async def _run_stages(self, run: RolloutRun) -> None:
        with run.stage("seed"):
            session = await self.resources.call(SEED, run.row, run.call)
        try:
            loop = _ToolLoop(self, run, session)
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

    async def _end(self, session: Session) -> None:
        if session.session_id is None:
            return
        call = Call().within(END_TIMEOUT_S)
        try:
            await asyncio.shield(self.resources.call(END_SESSION, {}, call, session=session.session_id))
        except PaddockError:
            return  # the server ends by itself what it is not asked for any more


class _ToolLoop:
    """The loop of one rollout."""

    def __init__(self, agent: ToolsAgent, run: RolloutRun, session: Session) -> None:
        self.ended: ExitReason | None = None
        """None: it runs."""
        self._agent = agent
        self._config = agent.config
        self._run = run
        self._session = session
        self._tools = _shown_tools(run.row, session)
        self._items: list[JsonObject] = []
        self._malformed: Counter[MalformedCall] = Counter()
        self._turns = 0
        self._usage = Usage()

    async def run(self) -> JsonObject:
        """Return the rollout's response."""
        body, first = self._request(), _input_items(self._run.row.responses_create_params)
        model = RolloutModel(
            self._agent.model, self._run.call, secret=self._run.secret, name=self._config.model_server.name
        )
        while self.ended is None:
            with self._run.stage("model"):
                try:
                    answer = await model.respond({**body, "input": [*first, *self._items]})
                except ContextExceeded:
                    self.ended = "context_limit"
                    break
            await self._take(answer)
        return self._response(body)

    async def _take(self, answer: JsonObject) -> None:
        """Add an answer and the results of its calls, and note where it ends the run."""
        self._turns += 1
        self._usage += usage_of(answer)
        output = with_call_ids(answer)
        self._items += output
        calls = tool_calls_of(output)
        if is_cut(answer):
            self._malformed["cut"] += bool(calls)
            self.ended = "output_limit"
        elif not calls:
            self.ended = "finished"
        else:
            results = await self._call_tools(calls)
            self._items += [call.result(result.text) for call, result in zip(calls, results, strict=True)]
            self._malformed.update(result.problem for result in results if result.problem)
            self.ended = "finished" if any(result.done for result in results) else self._limit()

    async def _call_tools(self, calls: Sequence[RawToolCall]) -> list[SessionCallResult]:
        with self._run.stage("tools"):
            if not self._config.concurrent_calls:
                return [await self._call_tool(call) for call in calls]
            return list(await asyncio.gather(*(self._call_tool(call) for call in calls)))

    async def _call_tool(self, call: RawToolCall) -> SessionCallResult:
        if self._session.session_id is None or call.shown not in self._tools:
            there = ", ".join(self._tools) or "none"
            return SessionCallResult(
                text=f"There is no tool {call.shown!r}; there are: {there}.", problem="unknown_tool"
            )
        # Not the model's own id: some models give each call the same, and the environment runs an id once.
        request = SessionCall(name=call.shown, arguments=call.raw, call_id=new_id("call"))
        context = Call(deadline=self._run.call.deadline).within(self._config.tool_timeout_s)
        return await self._agent.resources.call(CALL_TOOL, request, context, session=self._session.session_id)

    def _limit(self) -> ExitReason | None:
        turns, tokens = self._config.max_turns, self._config.max_tokens
        if turns is not None and self._turns >= turns:
            return "turn_limit"
        if tokens is not None and self._usage.output_tokens >= tokens:
            return "token_limit"
        return None

    def _request(self) -> JsonObject:
        params = self._run.row.responses_create_params
        defaults = self._config.chat_template_kwargs
        template = {**(params.get("chat_template_kwargs") or {}), **defaults} if defaults else None
        tools = list(self._tools.values())
        return {
            **{key: value for key, value in params.items() if key != "stream"},
            **({"tools": tools} if tools else {}),
            **({"chat_template_kwargs": template} if template else {}),
        }

    def _response(self, body: JsonObject) -> JsonObject:
        assert self.ended is not None
        cut = self.ended in ("token_limit", "context_limit", "output_limit")
        response = make_response(
            self._items,
            body,
            model=self._config.model_server.name,
            usage=self._usage,
            incomplete_reason="max_output_tokens" if cut else None,
        )
        texts = messages(self._items)
        exit_ = Exit(
            ended=self.ended,
            turns=self._turns,
            final=texts[-1] if texts else None,
            malformed=dict(self._malformed),
        )
        return {**response, HARNESS: {"name": "tools", **exit_.model_dump(exclude={"final"})}}


def _shown_tools(row: Row, session: Session) -> dict[str, JsonObject]:
    """Return the tools that the model is shown, by name. Raises RowError for one that the session does not serve."""
    served = {str(tool.get("name")): tool for tool in session.tools}
    given = row.responses_create_params.get("tools")
    if not given:
        return served
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise RowError("responses_create_params.tools: needs a list of tools", kind="row_invalid")
    shown = {str(tool.get("name")): tool for tool in given}
    unknown = [name for name in shown if name not in served]
    if unknown:
        raise RowError(
            f"responses_create_params.tools: the environment serves no {unknown[0]!r}; it serves: "
            f"{', '.join(served) or 'none'}",
            kind="tools_unserved",
        )
    return shown


def _input_items(params: JsonObject) -> list[JsonObject]:
    given = params["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
