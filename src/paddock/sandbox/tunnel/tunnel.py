"""The forwarding half of a tunnel: connections from a sandbox's loopback, to the rollout's model.

Law     the client's key, cookies and hop-by-hop headers end here; so does what calls say beside the dialect, which the
        log names, and every error text's mention of `hidden` or of where the model is.
        A client that closes its connection, or its sending side, has left: its call is cancelled.
Failure `failure` is how the last call of the model failed, where that was not the client's fault (5xx, 429, out of
        reach, cut): what a program inside makes of it does not show outside.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Self

from paddock.errors import InfraError, PaddockError
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.protocol import TunnelConnection, TunnelListener
from paddock.sandbox.tunnel.errors import OVERFLOWS, StreamErrors, Turned, error_body
from paddock.sandbox.tunnel.exchange import Exchange, Held, Request
from paddock.sandbox.tunnel.requests import check_request
from paddock.sandbox.tunnel.settings import MODEL_PATHS, TunnelSettings
from paddock.sandbox.tunnel.upstream import PASSED, Answer, Headers, ModelRequest, Upstream

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
ERROR_BYTES = 1 << 16
"""Of an upstream's error that are passed on."""
EVENTS = "text/event-stream"
MAX_NAMED = 32
"""Fields that a rollout's log names."""
_log = logging.getLogger("paddock.sandbox")


class Tunnel:
    """One rollout's; `async with` opens and closes it."""

    def __init__(
        self,
        listener: TunnelListener,
        upstream: Upstream,
        settings: TunnelSettings | None = None,
        *,
        hidden: Sequence[str] = (),
        seen: Callable[[bytes], None] | None = None,
        screen: Callable[[str, bytes], bytes] | None = None,
        api_key: str | None = None,
    ) -> None:
        """`hidden`: texts that must not go inside; `seen` gets each request's body, and refuses it by raising a
        PaddockError. `screen` gets path and body, and gives the body that goes on or raises Turned. `api_key`: what a
        client has to bring; None: whoever can connect may call."""
        self.calls = 0
        """Passed on."""
        self.turned = 0
        """Refused."""
        self.left_out: set[str] = set()
        """Names of what calls said that did not go on."""
        self.overflowed = False
        """The last call was answered as too long for the model, or as one too many for the rollout."""
        self.failure: InfraError | None = None
        self.asked_again = False
        """A call whose answer had begun came once more: to its client, that answer was not whole."""
        self._begun: set[bytes] = set()
        """Hashes of the bodies of such calls."""
        self.ended = asyncio.Event()
        """Nothing passes any more: it was closed, or what it listens on is gone."""
        self._listener = listener
        self._upstream = upstream
        self._settings = settings or TunnelSettings()
        self._hidden = [text.encode() for text in hidden if text]
        self._seen = seen
        self._screen = screen
        self._api_key = api_key
        self._held = Held()
        self._accepting: asyncio.Task[None] | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """As a program inside sees it."""
        return f"http://127.0.0.1:{self._listener.port}/v1"

    async def __aenter__(self) -> Self:
        self._accepting = asyncio.create_task(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Nothing passes any more, nothing is open."""
        self.ended.set()
        tasks = [*([self._accepting] if self._accepting else []), *self._open]
        for task in tasks:
            task.cancel()
        try:
            await self._listener.close()
        finally:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        try:
            async for connection in self._listener.connections():
                task = asyncio.create_task(self._serve(connection))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
        except SandboxError as error:
            _log.debug("tunnel: %s", error)  # the sandbox is gone, which its owner learns from it
        finally:
            self.ended.set()

    async def _serve(self, connection: TunnelConnection) -> None:
        exchange = Exchange(connection, self._settings, self._held)
        try:
            await self._exchange(exchange)
        except Turned as turned:
            self.turned += 1
            with contextlib.suppress(OSError):
                await exchange.turn(turned)
        except (OSError, SandboxError):
            return  # the client, or the sandbox, has gone
        except Exception:  # noqa: BLE001 - one exchange's trouble is not another's
            _log.exception("tunnel: an exchange failed")
        finally:
            with contextlib.suppress(OSError, SandboxError):
                await exchange.close()

    async def _exchange(self, exchange: Exchange) -> None:
        if len(self._open) > self._settings.max_connections:
            raise Turned(503, "busy", f"more than {self._settings.max_connections} calls at once")
        request = await exchange.request()
        if request is None:
            return
        call = self._checked(request)
        self.calls += 1
        self.asked_again |= _hash(call) in self._begun
        relay = asyncio.create_task(self._relay(exchange, call))
        gone = asyncio.create_task(exchange.gone())
        try:
            await asyncio.wait({relay, gone}, return_when=asyncio.FIRST_COMPLETED)
            if relay.done():
                relay.result()
        finally:
            for task in (relay, gone):
                task.cancel()
            await asyncio.gather(relay, gone, return_exceptions=True)

    def _checked(self, request: Request) -> ModelRequest:
        """The call, if it is one."""
        if request.headers.get("host", "").lower().removesuffix(f":{self._listener.port}") not in LOOPBACK:
            raise Turned(403, "forbidden", "there is no other host than this one")
        if self._api_key is not None and not _is_key(request.headers, self._api_key):
            raise Turned(401, "unauthorized", "this needs the rollout's key")
        path = request.target.partition("?")[0]
        method = MODEL_PATHS.get(path)
        if method is None:
            raise Turned(403, "forbidden", f"nothing but the model is here: {', '.join(MODEL_PATHS)}")
        if request.method != method:
            raise Turned(405, "method_not_allowed", f"{path} takes {method}")
        if self._seen is not None:
            try:
                self._seen(request.body)
            except PaddockError as error:
                raise Turned(403, "forbidden", "this call is not passed on") from error
        headers = {name: value for name, value in request.headers.items() if name in PASSED}
        if method != "POST":
            return ModelRequest(method, path, headers, b"")
        checked = check_request(path, request.body if self._screen is None else self._screen(path, request.body))
        self._note(checked.left_out)
        return ModelRequest(method, path, headers, checked.body)

    def _note(self, left_out: Sequence[str]) -> None:
        """Each field once in a rollout, and not without end: whoever is inside chooses the names."""
        news = [name for name in dict.fromkeys(left_out) if name not in self.left_out]
        news = news[: MAX_NAMED - len(self.left_out)]
        if news:
            self.left_out.update(news)
            _log.warning(
                "tunnel: left out of what a program asks its model: %s", ", ".join(repr(name[:64]) for name in news)
            )

    async def _relay(self, exchange: Exchange, call: ModelRequest) -> None:
        try:
            async with asyncio.timeout(self._settings.call_timeout_s), self._upstream(call) as answer:
                await self._answer(exchange, call, answer)
        except (Turned, _ClientGone):
            raise
        except Exception as error:  # whatever an upstream raises, the client inside gets the same
            text = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
            self.failure = InfraError(f"model call {call.path}: {self._clean(text.encode()).decode()}", kind="model")
            if exchange.begun:
                raise ConnectionError("cut") from error
            raise Turned(502, "model_unreachable", "the model can't be reached") from error

    async def _answer(self, exchange: Exchange, call: ModelRequest, answer: Answer) -> None:
        self.overflowed = False
        failed = answer.status >= 500 or answer.status == 429
        failure = InfraError(f"the model server answered {answer.status}", kind="model_status") if failed else None
        if answer.status >= 400:
            body = error_body(call.path, answer.status, self._clean(await _start(answer.body, ERROR_BYTES)))
            self.overflowed = answer.status == 400 and any(words in body for words in OVERFLOWS)
            self.failure = failure
            with _client():
                await exchange.head(answer.status, {**answer.headers, "content-length": str(len(body))})
                await exchange.data(body)
                await exchange.end()
            return
        if call.body:
            self._begun.add(_hash(call))
        with _client():
            await exchange.head(answer.status, answer.headers)
        errors = StreamErrors() if EVENTS in answer.headers.get("content-type", "") else None
        async for chunk in answer.body:
            if data := chunk if errors is None else errors.read(chunk):
                with _client():
                    await exchange.data(data)
        if errors is not None and (data := errors.rest()):
            with _client():
                await exchange.data(data)
        self.failure = None
        with _client():
            await exchange.end()

    def _clean(self, text: bytes) -> bytes:
        for hidden in self._hidden:
            text = text.replace(hidden, b"...")
        return text


def _hash(call: ModelRequest) -> bytes:
    return hashlib.sha256(call.body).digest()


def _is_key(headers: Headers, api_key: str) -> bool:
    brought = headers.get("authorization", "").removeprefix("Bearer "), headers.get("x-api-key", "")
    return any(hmac.compare_digest(one.encode(), api_key.encode()) for one in brought)


class _ClientGone(ConnectionError):  # noqa: N818 - whose it is is the point
    """The client's connection broke, not the upstream's."""


@contextlib.contextmanager
def _client() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _ClientGone(str(error)) from error


async def _start(body: AsyncIterator[bytes], size: int) -> bytes:
    taken = b""
    async for data in body:
        taken += data
        if len(taken) >= size:
            break
    return taken[:size]
