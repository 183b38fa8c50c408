"""Calls of a node's methods: sent again until they are answered, acted on once.

Law     a call ends with its answer, with its caller's cancellation, which the node is told, with its time, or with its
        lease: a node that is silent for the time of a lease is given up, however long the command may run.
Errors  what the provider behind the node raises; SandboxError of kind `node_lost` or `node_timeout`.
"""

import asyncio
import uuid
from typing import TypeVar

from pydantic import ValidationError

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.remote.http import POLL_S, Message, NodeAnswer, UnreachableError
from paddock.sandbox.remote.lease import NodeLease
from paddock.sandbox.remote.wire import (
    BYTES,
    CALL_HEADER,
    CALL_UNKNOWN,
    CALLS,
    LEASE_UNKNOWN,
    WAIT_HEADER,
    NodeRoute,
    Nothing,
    decode,
    encode,
)
from paddock.types import Record

FIRST_WAIT_S = 0.1
MAX_WAIT_S = 2.0
"""Seconds between tries."""
CANCEL_TIMEOUT_S = 10.0
STILL_RUNNING = 202
Request = TypeVar("Request", bound=Record)
Reply = TypeVar("Reply", bound=Record)


async def call(
    lease: NodeLease,
    route: NodeRoute[Request, Reply],
    request: Request,
    *,
    timeout_s: float | None = None,
    **words: str,
) -> Reply:
    """What the node answers. `timeout_s`: None: as long as the lease lives."""
    body = None if route.request is Nothing else encode(request)
    answer = await exchange(lease, Message(route.method, route.url(**words), body), timeout_s=timeout_s)
    try:
        return decode(route.reply, answer.content(lease.http.url))
    except ValidationError as error:
        where = f"{lease.http.url}{route.path}"
        raise SandboxError(f"{where}: the answer is no {route.reply.__name__}", kind="node_unreadable") from error


async def transfer(lease: NodeLease, method: str, path: str, data: bytes | None = None) -> bytes:
    """The content of a file that is read or, with `data`, written."""
    answer = await exchange(lease, Message(method, path, data, BYTES), timeout_s=None)
    return answer.content(lease.http.url)


async def exchange(lease: NodeLease, message: Message, *, timeout_s: float | None) -> NodeAnswer:
    """The answer to a message, whatever it says."""
    if lease.lost.done():
        raise lease.failure()
    call_id = uuid.uuid4().hex
    try:
        async with asyncio.timeout(timeout_s) as limit:
            with lease.ending(limit):
                answer = await _repeat(lease, call_id, message)
    except asyncio.CancelledError:
        await asyncio.shield(lease.hold(_cancel(lease, call_id)))
        raise
    except TimeoutError:
        if lease.lost.done():
            raise lease.failure() from None
        await _cancel(lease, call_id)
        text = f"{lease.http.url}{message.path}: no answer within {timeout_s:g} s"
        raise SandboxError(text, kind="node_timeout") from None
    lease.done.append(call_id)
    return answer


async def _repeat(lease: NodeLease, call_id: str, message: Message) -> NodeAnswer:
    """Send a call until the node answers it. Once the node has it, only its answer is asked for."""
    question = Message("GET", CALLS.format(call_id=call_id))
    arrived = False
    wait_s = FIRST_WAIT_S
    while True:
        headers = lease.headers()
        own = {**headers, CALL_HEADER: call_id, WAIT_HEADER: f"{POLL_S:g}"}
        try:
            answer = await lease.http.send(question if arrived else message, own)
        except UnreachableError:
            arrived = False
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_WAIT_S)
            continue
        lease.delivered(headers)
        wait_s = FIRST_WAIT_S
        if answer.status == STILL_RUNNING:
            arrived = True
        elif arrived and answer.error_kind == CALL_UNKNOWN:
            arrived = False
        elif answer.error_kind == LEASE_UNKNOWN:
            lease.lose("the node has ended the lease, or was started anew")
            raise lease.failure()
        else:
            return answer


async def _cancel(lease: NodeLease, call_id: str) -> None:
    """Have the node end a call; where it can't be told now, it is told with what is sent next."""
    message = Message("DELETE", CALLS.format(call_id=call_id))
    try:
        await lease.http.send(message, lease.headers(), timeout_s=CANCEL_TIMEOUT_S)
    except UnreachableError:
        lease.done.append(call_id)
