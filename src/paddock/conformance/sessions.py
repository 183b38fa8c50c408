"""What every environment with tools does: sessions that keep apart, end once, and come to what a replay comes to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.resources import good_answer, judge, peer_of, rows_of
from paddock.conformance.target import ServerTarget
from paddock.errors import InfraError
from paddock.http import (
    CALL_TOOL,
    END_SESSION,
    SEED,
    VERIFY_SESSION,
    Call,
    Peer,
    SessionCall,
    SessionCallResult,
    VerifyRequest,
)
from paddock.server import ToolsServer
from paddock.testing.transports import TRANSPORTS, Transport
from paddock.types import JsonObject, Row, Session, Verdict
from paddock.types.responses import calls, make_response, new_id

WRONG_ARGUMENTS = ("{", "[]", "null", '{"no_such_argument": 1}', "[" * 2000)


@asynccontextmanager
async def _opened(target: ServerTarget, row: Row, transport: Transport = "direct") -> AsyncIterator[tuple[Peer, str]]:
    if not issubclass(target.cls, ToolsServer):
        raise NotApplicable("it serves no tools")
    async with peer_of(target, transport) as peer:
        yield peer, _name(await peer.call(SEED, row, Call()))


def _name(session: Session) -> str:
    expect(session.session_id and session.tools, "a session has no id, or no tools")
    return str(session.session_id)


async def _call(peer: Peer, session: str, name: str, arguments: str, call_id: str | None = None) -> SessionCallResult:
    request = SessionCall(name=name, arguments=arguments, call_id=call_id or new_id("call"))
    return await peer.call(CALL_TOOL, request, Call(), session=session)


async def _judge(peer: Peer, session: str, row: Row, response: JsonObject) -> Verdict:
    return await peer.call(VERIFY_SESSION, VerifyRequest(row=row, response=response), Call(), session=session)


async def sessions_agree_with_replays(target: ServerTarget) -> None:
    for number, row in enumerate(rows_of(target)[:5], 1):
        response = good_answer(target, row)
        for transport in TRANSPORTS:
            async with _opened(target, row, transport) as (peer, session):
                for call in calls(response):
                    await _call(peer, session, call.name, call.arguments)
                by_state = await _judge(peer, session, row, response)
                again = await _judge(peer, session, row, response)
                replayed = await judge(peer, row, response)
            expect(by_state == again, f"row {number}: a session judged twice is {by_state.reward}, then {again.reward}")
            expect(
                by_state.reward == replayed.reward,
                f"row {number}: {by_state.reward} in its session over {transport}, {replayed.reward} when run again",
            )


async def sessions_keep_apart(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    response = good_answer(target, row)
    nothing = make_response([], row.responses_create_params, model="nobody")
    async with _opened(target, row) as (peer, session):
        other = _name(await peer.call(SEED, row, Call()))
        untouched = (await judge(peer, row, nothing)).reward
        for call in calls(response):
            await _call(peer, session, call.name, call.arguments)
        beside = await _judge(peer, other, row, nothing)
    expect(beside.reward == untouched, f"calls of one session changed the verdict of another to {beside.reward}")


async def wrong_calls_are_texts(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    async with _opened(target, row) as (peer, session):
        unknown = await _call(peer, session, "no_such_tool", "{}")
        expect(unknown.problem == "unknown_tool", f"a tool that there is not: {unknown}")
        names = [str(tool["name"]) for tool in (await peer.call(SEED, row, Call())).tools]
        for name in names:
            for arguments in WRONG_ARGUMENTS:
                result = await _call(peer, session, name, arguments)
                expect(result.problem is not None, f"{name} took {arguments[:40]}")


async def repeated_calls_run_once(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    response = good_answer(target, row)
    async with _opened(target, row) as (peer, session):
        for call in calls(response):
            call_id = new_id("call")
            first = await _call(peer, session, call.name, call.arguments, call_id)
            again = await _call(peer, session, call.name, call.arguments, call_id)
            expect(first == again, f"{call.name}: asked again under its id, it answers {again.text[:80]!r}")
        verdict = await _judge(peer, session, row, response)
        expect(verdict == await judge(peer, row, response), "calls that were asked twice ran twice")


async def ended_sessions_are_lost(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    response = good_answer(target, row)
    async with _opened(target, row) as (peer, session):
        for _ in range(2):
            await peer.call(END_SESSION, {}, Call(), session=session)
        for ask in (lambda: _call(peer, session, "x", "{}"), lambda: _judge(peer, session, row, response)):
            try:
                await ask()
            except InfraError as error:
                expect(error.kind == "session_lost", f"an ended session is {error.kind}")
            else:
                raise AssertionError("an ended session was called or judged")


SUITE = [
    Behaviour("a session comes to the verdict that its calls come to when run again", sessions_agree_with_replays),
    Behaviour("sessions keep apart", sessions_keep_apart),
    Behaviour("a call that no tool can take is a text for the model", wrong_calls_are_texts),
    Behaviour("a call that is asked again is not run again", repeated_calls_run_once),
    Behaviour("a session can be ended twice, and is an infra failure after that", ended_sessions_are_lost),
]
