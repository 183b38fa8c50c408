"""An exact server in this process, whose engine says what a scenario says and logs what it was asked.

Law     each run is a rollout of its own. Bodies go through JSON both ways, as over a wire. What the server tokenises is
        counted apart from what the policy does. Each prompt is compared with the template's own (`comparing`).
Errors  a run that an error ends has a `problem`, and one whose last prompt lacks what the client told; a RequestError
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
from paddock.lab.fidelity.comparing import Comparing, Continued
from paddock.lab.fidelity.languages import Language
from paddock.lab.fidelity.measuring import Logged, measure
from paddock.lab.fidelity.policy import FidelityPolicy, Hands, RawParser, closing, own_stops, words
from paddock.lab.fidelity.records import Run
from paddock.lab.fidelity.scenarios import Scenario, Turn
from paddock.lab.fidelity.telling import untold
from paddock.server.dialects import Dialect
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.conversation import conversation
from paddock.server.exact import Equipment, ExactConfig, ExactServer
from paddock.server.exact.server import REASONING_FIELDS, tool_names
from paddock.server.recording_server import PendingCall
from paddock.testing.engines import NO_PEERS, ScriptedEngine, log_prob
from paddock.types import JsonObject

MODEL = "policy"
_WHOLE = 1 << 30
"""Ids per chunk: nothing is streamed."""
_AGAIN = "This was sampled a second time."
_TITLE = "Fixing a sum"


class BenchServer(ExactServer[ExactConfig]):
    """The server that a report is about."""

    config_type = ExactConfig

    def __init__(
        self, config: ExactConfig, *, equipment: Equipment, comparing: Comparing, peers: Mapping[str, Peer] = NO_PEERS
    ) -> None:
        super().__init__(config, name=MODEL, peers=peers)
        self.differences: list[str] = []
        """Of prompts from the template's own, in words."""
        self._given = equipment
        self._comparing = comparing
        self._told: dict[str, list[JsonObject]] = {}
        """All that was told before the answer, by the id of its turn."""

    @property
    def model_name(self) -> str:
        return MODEL

    async def equip(self) -> Equipment:
        return self._given

    def begin(self) -> None:
        """A run."""
        self.differences.clear()
        self._told.clear()

    def _prompt(self, pending: PendingCall) -> list[int]:
        prompt = super()._prompt(pending)
        if (difference := self._difference(pending, prompt)) is not None:
            self.differences.append(difference)
        return prompt

    def _difference(self, pending: PendingCall, prompt: Sequence[int]) -> str | None:
        told, turn = pending.conversation, pending.matched.turn
        arguments = {**told.arguments, **self.config.chat_template_kwargs}
        if pending.secret is None or turn is None or pending.placed is None:
            self._told[pending.turn_id] = told.items
            return self._comparing.whole(_messages(told.items), told.tools, arguments, prompt)
        recorded = self.store.index(pending.secret).by_id[turn]
        names = tool_names(recorded.output, told)
        said = [{**item, "name": names[item["call_id"]]} if "name" in item else item for item in recorded.output]
        before, new = self._told[turn], pending.placed.prompt_ids
        self._told[pending.turn_id] = [*before, *recorded.output, *pending.matched.environment]
        *spoken, answer = _messages(said) or [{"role": "assistant", "content": ""}]
        continued = Continued(
            before=[*_messages(before), *spoken],
            answer=answer,
            follows=_messages(pending.matched.environment),
            last_ids=recorded.sampled_ids or (),
            new_ids=new,
        )
        return self._comparing.continued(continued, told.tools, arguments)


def _messages(items: Sequence[JsonObject]) -> list[JsonObject]:
    return chat_messages(items, reasoning_fields=REASONING_FIELDS)


class Stage:
    """One run: what a client asks, and what it is told."""

    def __init__(self, scenario: Scenario, language: Language, policy: FidelityPolicy, server: BenchServer) -> None:
        self.scenario = scenario
        self.language = language
        self.requests = 0
        self.branches_by_design = scenario.branches
        """A client that makes another of its own adds it."""
        self.problem: str | None = None
        """What ended it too early."""
        self.refused = False
        """The last request was: where the run has a problem, it is that."""
        self.tokenised_chars = 0
        """By the server."""
        self._last: tuple[Dialect, bytes] | None = None
        self.secret = new_secret()
        self._policy = policy
        self._server = server
        self._played = 0
        self._files = 0

    @property
    def told(self) -> list[JsonObject]:
        """The history of the last request, in one form for all dialects."""
        return conversation(self._last[0], orjson.loads(self._last[1])).items if self._last else []

    @property
    def next_turn(self) -> Turn | None:
        """None: the run ends with it."""
        turns = self.scenario.turns
        return turns[self._played] if self._played < len(turns) else None

    async def ask(self, dialect: Dialect, body: JsonObject, hands: Hands, aside: JsonObject) -> JsonObject:
        """The policy's next turn. `aside`: what the client asks beside its conversation, where the scenario says so."""
        turn = self.next_turn
        if turn is not None and turn.beside == "title":
            self._policy.say(_TITLE)
            await self.send(dialect, aside)
        self._say(hands)
        reply = await self.send(dialect, body)
        if turn is not None and turn.retried:
            self._policy.say(_AGAIN)
            reply = await self.send(dialect, body)
            self._policy.forget()
        return reply

    async def reply(self, dialect: Dialect, body: JsonObject, hands: Hands) -> ModelReply:
        """The policy's next turn, as a program asks for it: streamed or whole. What it asks again it gets again."""
        if self._last != (dialect, orjson.dumps(body)):
            self._say(hands)
        return await self._pass(dialect, body)

    def peer(self, hands: Callable[[Dialect, JsonObject], Hands]) -> Peer:
        """The server as a program's, whose answers are the policy's turns (`reply`)."""

        async def answered(dialect: Dialect, body: JsonObject, _call: Call) -> ModelReply:
            return await self.reply(dialect, body, hands(dialect, body))

        routes: dict[Dialect, Any] = {"responses": RESPONSES, "chat": CHAT, "messages": MESSAGES}
        answers = {route: partial(answered, dialect) for dialect, route in routes.items()}
        return DirectPeer(MODEL, lambda: {**self._server.handlers(), **answers})

    async def side(self, dialect: Dialect, body: JsonObject, said: str) -> JsonObject:
        """An answer that no turn of the scenario gives."""
        self._policy.say(said)
        return await self.send(dialect, body)

    async def send(self, dialect: Dialect, body: JsonObject) -> JsonObject:
        reply = await self._pass(dialect, body)
        if isinstance(reply, EventStream):
            raise BugError("a stream came where a whole answer was asked for", kind="unscripted")
        told: JsonObject = orjson.loads(orjson.dumps(reply))
        return told

    def _say(self, hands: Hands) -> None:
        turn = self.next_turn
        if turn is None:
            self._policy.say(closing(hands))
        else:
            text = words(turn, hands, self._files)
            self._policy.say(text, cut=turn.cut, uncommon=turn.uncommon, as_call=turn.ends_as_call or None)
            self._files += len(turn.calls)
        self._played += 1

    async def _pass(self, dialect: Dialect, body: JsonObject) -> ModelReply:
        self.requests += 1
        call = Call(path={"secret": self.secret})
        wire = orjson.dumps(body)
        self._last = dialect, wire
        answer = {"responses": self._server.responses, "chat": self._server.chat, "messages": self._server.messages}
        before = self.language.vocabulary.encoded_chars
        try:
            reply = await answer[dialect](orjson.loads(wire), call)
        except RequestError:
            self.refused = True
            raise
        self.refused = False
        if isinstance(reply, EventStream):
            return EventStream(self._counted(reply.events, before))
        self.tokenised_chars += self.language.vocabulary.encoded_chars - before
        return reply

    async def _counted(self, events: AsyncIterator[bytes], before: int) -> AsyncIterator[bytes]:
        """Event by event: nobody says when a client has gone."""
        async for event in events:
            now = self.language.vocabulary.encoded_chars
            self.tokenised_chars += now - before
            before = now
            yield event


class Subject(Protocol):
    """What is tried."""

    @property
    def name(self) -> str:
        """With its kind: `harness:codex`, `program:codex_cli`, `client:codex_cli`."""
        ...

    @property
    def dialect(self) -> Dialect: ...

    async def play(self, stage: Stage) -> None:
        """Live through the stage's scenario. NotApplicable where it can't."""
        ...


class Bench:
    """Runs, one after another."""

    def __init__(self, language: Language, server: BenchServer, engine: ScriptedEngine, policy: FidelityPolicy) -> None:
        self.language = language
        self.server = server
        self._engine = engine
        self._policy = policy

    async def run(self, subject: Subject, scenario: Scenario) -> Run | None:
        """None: the scenario can't be tried with it."""
        stage = Stage(scenario, self.language, self._policy, self.server)
        self._engine.seen.clear()
        self.server.begin()
        try:
            await subject.play(stage)
        except NotApplicable:
            return None
        except (BugError, ConfigError):
            raise
        except PaddockError as error:
            stage.problem = error.message
        except Exception as error:  # noqa: BLE001 - a harness's own
            stage.problem = f"{type(error).__name__}: {error}"
        stage.problem = stage.problem or self._untold(stage)
        log = [
            Logged(seen.prompt, seen.sampled, [log_prob(nth, token) for nth, token in enumerate(seen.sampled)])
            for seen in self._engine.seen
        ]
        record = await self.server.turns(stage.secret)
        await self.server.forget(stage.secret)
        figures = measure(record, log, tokenised_chars=stage.tokenised_chars, decode=self.language.vocabulary.decode)
        return Run(
            scenario=scenario.name,
            requests=stage.requests,
            branches_by_design=stage.branches_by_design,
            problem=stage.problem,
            refused=stage.refused and stage.problem is not None,
            differences=list(dict.fromkeys(self.server.differences)),
            figures=figures,
        )

    def _untold(self, stage: Stage) -> str | None:
        """In words."""
        if not self._engine.seen:
            return "the engine was never asked"
        missing = untold(stage.told, self.language.vocabulary.decode(self._engine.seen[-1].prompt))
        return f"the engine was not told what the client told: {missing[0][:80]!r}" if missing else None


@asynccontextmanager
async def bench(language: Language, *, server_type: type[BenchServer] = BenchServer) -> AsyncIterator[Bench]:
    """`server_type`: another way to make prompts, to compare with."""
    policy = FidelityPolicy(language.policy_vocabulary, own_stops(language.prompter, language.policy_vocabulary))
    engine = ScriptedEngine(language.policy_vocabulary, policy, chunk_ids=_WHOLE)
    equipment = Equipment(engine, language.vocabulary, language.prompter, lambda tools, prompt_ids: RawParser())
    with TemporaryDirectory(prefix="paddock-fidelity-") as folder:
        config = ExactConfig.model_validate({"turn_store": {"folder": str(Path(folder) / "turns")}})
        comparing = Comparing(language.prompter, language.policy_vocabulary)
        server = server_type(config, equipment=equipment, comparing=comparing)
        await server.start()
        try:
            yield Bench(language, server, engine, policy)
        finally:
            await server.stop()
