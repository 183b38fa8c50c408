"""An exact server in this process, whose engine says what a scenario says and logs what it was asked: a scripted one,
or one that is made to.

Law     each run is a rollout of its own. Bodies go through JSON both ways, as over a wire. What the server tokenises is
        counted apart from what the policy does. Each prompt is compared with the template's own (`prompt_comparison`).
Errors  a run that an error ends has a `problem`, and one whose last prompt lacks what the client sent; a RequestError
        of the server is a refusal. Those of the bench itself (BugError) are raised.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import orjson

from paddock.conformance.behaviours import NotApplicable
from paddock.errors import BugError, ConfigError, PaddockError, RequestError
from paddock.http import CHAT, MESSAGES, RESPONSES, Call, DirectPeer, EventStream, ModelReply, Peer, new_secret
from paddock.lab.fidelity.figures import LoggedCall, measure
from paddock.lab.fidelity.languages import Language
from paddock.lab.fidelity.missing_texts import missing_texts
from paddock.lab.fidelity.policy import FidelityPolicy, RawParser, Toolset, answer_stops, answer_text, closing_text
from paddock.lab.fidelity.prompt_comparison import ContinuedPrompt, PromptComparison
from paddock.lab.fidelity.records import ScenarioResult
from paddock.lab.fidelity.scenarios import PolicyTurn, Scenario
from paddock.server.dialects import Dialect
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.conversation import conversation
from paddock.server.exact import Equipment, ExactConfig, ExactServer, TokenEngine
from paddock.server.exact.server import REASONING_FIELDS, tool_names
from paddock.server.recording_server import PendingCall
from paddock.testing.engines import NO_PEERS, EngineCall, ScriptedEngine
from paddock.types import JsonObject

MODEL = "policy"
_WHOLE = 1 << 30
"""Ids per chunk: nothing is streamed."""
_SECOND_ANSWER = "This was sampled a second time."
_TITLE = "Fixing a sum"


class BenchServer(ExactServer[ExactConfig]):
    """The server that a report is about."""

    config_type = ExactConfig

    def __init__(
        self,
        config: ExactConfig,
        *,
        equipment: Equipment,
        comparison: PromptComparison,
        peers: Mapping[str, Peer] = NO_PEERS,
    ) -> None:
        super().__init__(config, name=MODEL, peers=peers)
        self.differences: list[str] = []
        """How prompts differ from the template's own, in words."""
        self._scripted_equipment = equipment
        self._comparison = comparison
        self._histories: dict[str, list[JsonObject]] = {}
        """All items before an answer, by the id of its turn."""

    @property
    def model_name(self) -> str:
        return MODEL

    async def equip(self) -> Equipment:
        return self._scripted_equipment

    def start_run(self) -> None:
        """Forget what belongs to the run before."""
        self.differences.clear()
        self._histories.clear()

    def _prompt(self, pending: PendingCall) -> list[int]:
        prompt = super()._prompt(pending)
        if (difference := self._difference(pending, prompt)) is not None:
            self.differences.append(difference)
        return prompt

    def _difference(self, pending: PendingCall, prompt: Sequence[int]) -> str | None:
        request, turn = pending.conversation, pending.match.turn
        arguments = {**request.arguments, **self.config.chat_template_kwargs}
        if pending.rollout is None or turn is None or pending.placement is None:
            self._histories[pending.turn_id] = request.items
            return self._comparison.compare_first(_messages(request.items), request.tools, arguments, prompt)
        recorded = pending.rollout.index.by_id[turn]
        names = tool_names(recorded.output, request)
        answer_items = [
            {**item, "name": names[item["call_id"]]} if "name" in item else item for item in recorded.output
        ]
        before, new = self._histories[turn], pending.placement.prompt_ids
        self._histories[pending.turn_id] = [*before, *recorded.output, *pending.match.environment]
        *earlier, answer = _messages(answer_items) or [{"role": "assistant", "content": ""}]
        continued = ContinuedPrompt(
            before=[*_messages(before), *earlier],
            answer=answer,
            follows=_messages(pending.match.environment),
            last_ids=recorded.sampled_ids or (),
            new_ids=new,
        )
        return self._comparison.compare_continued(continued, request.tools, arguments)


def _messages(items: Sequence[JsonObject]) -> list[JsonObject]:
    return chat_messages(items, reasoning_fields=REASONING_FIELDS)


class ScenarioRun:
    """One run of a scenario: what a client asks, and what it is answered."""

    def __init__(self, scenario: Scenario, language: Language, policy: FidelityPolicy, server: BenchServer) -> None:
        self.scenario = scenario
        self.language = language
        self.requests = 0
        self.branches_by_design = scenario.branches
        """Branches that the client means to make; one that starts another of its own adds to it."""
        self.problem: str | None = None
        """What ended the run too early."""
        self.refused = False
        """The last request was refused: where the run has a problem, it is that."""
        self.tokenised_chars = 0
        """Characters that the server tokenised."""
        self._last: tuple[Dialect, bytes] | None = None
        self.secret = new_secret()
        self._policy = policy
        self._server = server
        self._n_turns = 0
        self._n_files = 0

    @property
    def history(self) -> list[JsonObject]:
        """The history of the last request, in one form for all dialects."""
        return conversation(self._last[0], orjson.loads(self._last[1])).items if self._last else []

    @property
    def next_turn(self) -> PolicyTurn | None:
        """None: the run ends with it."""
        turns = self.scenario.turns
        return turns[self._n_turns] if self._n_turns < len(turns) else None

    async def ask(self, dialect: Dialect, body: JsonObject, toolset: Toolset, side_request: JsonObject) -> JsonObject:
        """The policy's next turn. `side_request` is sent first where the scenario's turn wants a title."""
        turn = self.next_turn
        if turn is not None and turn.beside == "title":
            self._policy.say(_TITLE)
            await self.send(dialect, side_request)
        self._say(toolset)
        reply = await self.send(dialect, body)
        if turn is not None and turn.retried:
            self._policy.say(_SECOND_ANSWER)
            reply = await self.send(dialect, body)
            self._policy.forget()
        return reply

    async def reply(self, dialect: Dialect, body: JsonObject, toolset: Toolset) -> ModelReply:
        """The policy's next turn, as a program asks for it: streamed or whole. What it asks again it gets again."""
        if self._last != (dialect, orjson.dumps(body)):
            self._say(toolset)
        return await self._forward(dialect, body)

    def peer(self, toolset: Callable[[Dialect, JsonObject], Toolset]) -> Peer:
        """The server as a program's, whose answers are the policy's turns (`reply`)."""

        async def answer(dialect: Dialect, body: JsonObject, _call: Call) -> ModelReply:
            return await self.reply(dialect, body, toolset(dialect, body))

        routes: dict[Dialect, Any] = {"responses": RESPONSES, "chat": CHAT, "messages": MESSAGES}
        answers = {route: partial(answer, dialect) for dialect, route in routes.items()}
        return DirectPeer(MODEL, lambda: {**self._server.handlers(), **answers})

    async def answer_side_request(self, dialect: Dialect, body: JsonObject, text: str) -> JsonObject:
        """An answer that no turn of the scenario gives."""
        self._policy.say(text)
        return await self.send(dialect, body)

    async def send(self, dialect: Dialect, body: JsonObject) -> JsonObject:
        reply = await self._forward(dialect, body)
        if isinstance(reply, EventStream):
            raise BugError("a stream came where a whole answer was asked for", kind="unscripted")
        whole: JsonObject = orjson.loads(orjson.dumps(reply))
        return whole

    def _say(self, toolset: Toolset) -> None:
        turn = self.next_turn
        if turn is None:
            self._policy.say(closing_text(toolset))
        else:
            text = answer_text(turn, toolset, self._n_files)
            self._policy.say(text, cut=turn.cut, uncommon=turn.uncommon, as_call=turn.ends_as_call or None)
            self._n_files += len(turn.calls)
        self._n_turns += 1

    async def _forward(self, dialect: Dialect, body: JsonObject) -> ModelReply:
        self.requests += 1
        call = Call(path={"secret": self.secret})
        encoded = orjson.dumps(body)
        self._last = dialect, encoded
        answer = {"responses": self._server.responses, "chat": self._server.chat, "messages": self._server.messages}
        before = self.language.vocabulary.encoded_chars
        try:
            reply = await answer[dialect](orjson.loads(encoded), call)
        except RequestError:
            self.refused = True
            raise
        self.refused = False
        if isinstance(reply, EventStream):
            return EventStream(self._count_tokenised(reply.events, before))
        self.tokenised_chars += self.language.vocabulary.encoded_chars - before
        return reply

    async def _count_tokenised(self, events: AsyncIterator[bytes], before: int) -> AsyncIterator[bytes]:
        """Count event by event: nobody says when a client has gone."""
        async for event in events:
            now = self.language.vocabulary.encoded_chars
            self.tokenised_chars += now - before
            before = now
            yield event


class FidelitySubject(Protocol):
    """What is tried."""

    @property
    def name(self) -> str:
        """With its kind: `harness:codex`, `program:codex_cli`, `client:codex_cli`."""
        ...

    @property
    def dialect(self) -> Dialect: ...

    async def play(self, run: ScenarioRun) -> None:
        """Play the run's scenario. NotApplicable where it can't."""
        ...


class LoggedEngine(TokenEngine, Protocol):
    """An engine that says what the policy says, and logs it."""

    @property
    def calls(self) -> list[EngineCall]:
        """As the engine itself saw them; they are cleared before a run."""
        ...


EngineFactory = Callable[[Language, FidelityPolicy], LoggedEngine]


def scripted_engine(language: Language, policy: FidelityPolicy) -> LoggedEngine:
    return ScriptedEngine(language.policy_vocabulary, policy, chunk_ids=_WHOLE)


class Bench:
    """Runs subjects through scenarios, one run after another."""

    def __init__(self, language: Language, server: BenchServer, engine: LoggedEngine, policy: FidelityPolicy) -> None:
        self.language = language
        self.server = server
        self._engine = engine
        self._policy = policy

    async def run(self, subject: FidelitySubject, scenario: Scenario) -> ScenarioResult | None:
        """None where the scenario can't be tried with the subject."""
        run = ScenarioRun(scenario, self.language, self._policy, self.server)
        self._engine.calls.clear()
        self.server.start_run()
        try:
            await subject.play(run)
        except NotApplicable:
            return None
        except (BugError, ConfigError):
            raise
        except PaddockError as error:
            run.problem = error.message
        except Exception as error:  # noqa: BLE001 - a harness's own
            run.problem = f"{type(error).__name__}: {error}"
        run.problem = run.problem or self._missing_text(run)
        log = [LoggedCall(seen.prompt, seen.sampled, seen.log_probs) for seen in self._engine.calls]
        record = await self.server.turns(run.secret)
        await self.server.forget(run.secret)
        figures = measure(record, log, tokenised_chars=run.tokenised_chars, decode=self.language.vocabulary.decode)
        return ScenarioResult(
            scenario=scenario.name,
            requests=run.requests,
            branches_by_design=run.branches_by_design,
            problem=run.problem,
            refused=run.refused and run.problem is not None,
            differences=list(dict.fromkeys(self.server.differences)),
            figures=figures,
        )

    def _missing_text(self, run: ScenarioRun) -> str | None:
        """A text of the client's that never reached the engine, as a problem."""
        if not self._engine.calls:
            return "the engine was never asked"
        missing = missing_texts(run.history, self.language.vocabulary.decode(self._engine.calls[-1].prompt))
        return f"the engine did not get what the client sent: {missing[0][:80]!r}" if missing else None


@asynccontextmanager
async def bench(
    language: Language, *, server_type: type[BenchServer] = BenchServer, make_engine: EngineFactory = scripted_engine
) -> AsyncIterator[Bench]:
    """`server_type`: another way to make prompts, to compare with."""
    policy = FidelityPolicy(language.policy_vocabulary, answer_stops(language.prompter, language.policy_vocabulary))
    engine = make_engine(language, policy)
    equipment = Equipment(engine, language.vocabulary, language.prompter, lambda tools, prompt_ids: RawParser())
    with TemporaryDirectory(prefix="paddock-fidelity-") as folder:
        config = ExactConfig.model_validate({"turn_store": {"folder": str(Path(folder) / "turns")}})
        comparison = PromptComparison(language.prompter, language.policy_vocabulary)
        server = server_type(config, equipment=equipment, comparison=comparison)
        await server.start()
        try:
            yield Bench(language, server, engine, policy)
        finally:
            await server.stop()
