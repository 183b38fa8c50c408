"""The loop of one rollout: the model is asked, its calls are run, until it is done or a limit is met."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from paddock.agents.tools.config import ToolsAgentConfig
from paddock.agents.tools.simulated_user import SimulatedUser
from paddock.agents.tools.sources import EnvironmentSteps, RolloutTools, ToolReply
from paddock.errors import InfraError
from paddock.harness import ContextExceeded, Exit
from paddock.harness.contract import ExitReason, MalformedCall
from paddock.harness.native.tool_calls import tool_calls_of, with_call_ids
from paddock.harness.native.toolbox import RawToolCall
from paddock.http import Call
from paddock.server.rollout import RolloutRun
from paddock.server.rollout_model import RolloutModel
from paddock.tracing import tool_span
from paddock.types import JsonObject, Usage
from paddock.types.responses import is_cut, make_response, messages, usage_of, user_message

HARNESS = "harness"
"""Key of the response: how the run ended."""


class ToolLoop:
    """`run` is called once."""

    def __init__(
        self,
        config: ToolsAgentConfig,
        run: RolloutRun,
        model: RolloutModel,
        tools: RolloutTools,
        user: SimulatedUser | None = None,
        steps: EnvironmentSteps | None = None,
    ) -> None:
        self.ended: ExitReason | None = None
        """None: it runs."""
        self._config = config
        self._run = run
        self._model = model
        self._tools = tools
        self._user = user
        self._steps = steps
        self._items: list[JsonObject] = [] if steps is None else [*steps.opening]
        self._malformed: Counter[MalformedCall] = Counter()
        self._turns = 0
        self._usage = Usage()

    async def run(self) -> JsonObject:
        """Return the rollout's response."""
        body, first = self._request(), _input_items(self._run.row.responses_create_params)
        if self._user is not None and not any(item.get("role") == "user" for item in first):
            with self._run.stage("tools"):
                self._hear(await self._user.open())
        while self.ended is None:
            with self._run.stage("model"):
                try:
                    answer = await self._model.respond({**body, "input": [*first, *self._items]})
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
        if self._steps is not None:
            await self._step(self._steps, answer, output)
        elif is_cut(answer):
            self._malformed["cut"] += bool(calls)
            self.ended = "output_limit"
        elif not calls:
            goes_on = self._config.reasoning_alone == "continues" and bool(output) and not messages(output)
            self.ended = self._limit() if goes_on else await self._ask_user(output)
        else:
            results = await self._call_tools(calls)
            self._items += [self._result(call, reply) for call, reply in zip(calls, results, strict=True)]
            self._malformed.update(result.problem for result in results if result.problem)
            self.ended = "finished" if any(result.done for result in results) else self._limit()

    async def _step(self, steps: EnvironmentSteps, answer: JsonObject, output: Sequence[JsonObject]) -> None:
        """Have the environment reply to an answer, cut ones too: what that means is its own to say."""
        action = make_response(
            output,
            self._run.row.responses_create_params,
            model=self._config.model_server.name,
            usage=usage_of(answer),
            incomplete_reason="max_output_tokens" if is_cut(answer) else None,
        )
        with self._run.stage("tools"):
            reply = await steps.take(action, self._tool_call())
        self._items += reply.items
        self._malformed["bad_arguments"] += reply.refused
        self.ended = "turn_limit" if reply.truncated else "finished" if reply.done else self._limit()

    async def _ask_user(self, output: Sequence[JsonObject]) -> ExitReason | None:
        """Have the user reply to an answer without calls, where there is one; return what that ends the run with."""
        if self._user is None:
            return "finished"
        limit = "turn_limit" if self._user.is_spent else self._limit()
        if limit is None:
            with self._run.stage("tools"):
                self._hear(await self._user.reply("\n".join(messages(output))))
        return limit or self.ended

    def _hear(self, said: str | None) -> None:
        """Add a message of the user; None: it is content, which ends the run."""
        if said is None:
            self.ended = "finished"
        else:
            self._items.append(user_message(said))

    async def _call_tools(self, calls: Sequence[RawToolCall]) -> list[ToolReply]:
        with self._run.stage("tools"):
            if not self._config.concurrent_calls:
                return [await self._call_tool(call) for call in calls]
            return list(await asyncio.gather(*(self._call_tool(call) for call in calls)))

    async def _call_tool(self, call: RawToolCall) -> ToolReply:
        with tool_span(call.shown, call.call_id) as span:
            reply = await self._tools.call(call, self._tool_call())
            if reply.problem is not None:
                span.fail(f"policy.{reply.problem}")
            return reply

    def _tool_call(self) -> Call:
        return Call(deadline=self._run.call.deadline).within(self._config.tool_timeout_s)

    def _result(self, call: RawToolCall, reply: ToolReply) -> JsonObject:
        """Return the item of a result. Raises InfraError for images where the agent's block refuses them."""
        item = call.result(reply.text)
        if not reply.images:
            return item
        if self._config.tool_images == "refuse":
            raise InfraError(
                f"tool {call.shown}: its result has images; with `tool_images: pass` a model that takes them gets them",
                kind="image_refused",
                stage="tools",
                retryable=False,
            )
        texts = [{"type": "input_text", "text": reply.text}] if reply.text else []
        images = [{"type": "input_image", "image_url": url, "detail": "auto"} for url in reply.images]
        return {**item, "output": [*texts, *images]}

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
        tools = list(self._tools.definitions.values())
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
            malformed=dict(+self._malformed),
        )
        user = {} if self._user is None else {"user_messages": self._user.n_messages}
        return {**response, HARNESS: {"name": "tools", **exit_.model_dump(exclude={"final"}), **user}}


def _input_items(params: JsonObject) -> list[JsonObject]:
    given = params["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
