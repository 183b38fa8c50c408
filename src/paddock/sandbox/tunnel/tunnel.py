"""The forwarding half of a tunnel: connections from a sandbox's loopback, to the rollout's model.

Law     the client's key, cookies and hop-by-hop headers end here; so does what calls say beside the dialect, which the
        log names, and every error text's mention of `hidden` or of where the model is.
        A client that closes its connection, or its sending side, has left: its call is cancelled.
Failure `failure` is how the last call of the model failed, where that was not the client's fault (5xx, 429, out of
        reach, cut): how a program inside reacts to it does not show outside.
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
from paddock.sandbox.tunnel.errors import OVERFLOWS, StreamErrors, TunnelRefusal, error_body
from paddock.sandbox.tunnel.exchange import HeldBytes, TunnelExchange, TunnelRequest
from paddock.sandbox.tunnel.requests import check_request
from paddock.sandbox.tunnel.settings import MODEL_PATHS, TunnelSettings
from paddock.sandbox.tunnel.upstream import REQUEST_HEADERS, Headers, ModelRequest, Upstream, UpstreamAnswer

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
ERROR_BYTES = 1 << 16
"""Most bytes of an upstream's error that are passed on."""
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
        inspect: Callable[[bytes], None] | None = None,
        screen: Callable[[str, bytes], bytes] | None = None,
        api_key: str | None = None,
    ) -> None:
        """`hidden`: texts that must not go inside; `inspect` gets each request's body, and refuses it by raising
        a PaddockError. `screen` gets path and body, and gives the body that goes on or raises TunnelRefusal. `api_key`:
        what a client has to bring; None: whoever can connect may call."""
        self.calls = 0
        """Calls that were passed on."""
        self.refusals = 0
        """Calls that were refused."""
        self.left_out: set[str] = set()
        """Names of fields of calls that were left out."""
        self.overflowed = False
        """The last call was answered as too long for the model, or as one too many for the rollout."""
        self.failure: InfraError | None = None
        self.call_repeated = False
        """A call came once more after its answer had started: for its client, that answer was not whole."""
        self._started_calls: set[bytes] = set()
        """Hashes of the bodies of calls whose answer has started."""
        self.ended = asyncio.Event()
        """Set when nothing passes any more: it was closed, or its listener is gone."""
        self._listener = listener
        self._upstream = upstream
        self._settings = settings or TunnelSettings()
        self._hidden = [text.encode() for text in hidden if text]
        self._inspect = inspect
        self._screen = screen
        self._api_key = api_key
        self._held = HeldBytes()
        self._accepting: asyncio.Task[None] | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """The URL of the model for a program inside."""
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
        exchange = TunnelExchange(connection, self._settings, self._held)
        try:
            await self._exchange(exchange)
        except TunnelRefusal as refusal:
            self.refusals += 1
            with contextlib.suppress(OSError):
                await exchange.refuse(refusal)
        except (OSError, SandboxError):
            return  # the client, or the sandbox, has gone
        except Exception:  # noqa: BLE001 - one exchange's trouble is not another's
            _log.exception("tunnel: an exchange failed")
        finally:
            with contextlib.suppress(OSError, SandboxError):
                await exchange.close()

    async def _exchange(self, exchange: TunnelExchange) -> None:
        if len(self._open) > self._settings.max_connections:
            raise TunnelRefusal(503, "busy", f"more than {self._settings.max_connections} calls at once")
        request = await exchange.request()
        if request is None:
            return
        call = self._check(request)
        self.calls += 1
        self.call_repeated |= _hash(call) in self._started_calls
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

    def _check(self, request: TunnelRequest) -> ModelRequest:
        """The call that is passed on; TunnelRefusal where the request is none."""
        if request.headers.get("host", "").lower().removesuffix(f":{self._listener.port}") not in LOOPBACK:
            raise TunnelRefusal(403, "forbidden", "there is no other host than this one")
        if self._api_key is not None and not _is_key(request.headers, self._api_key):
            raise TunnelRefusal(401, "unauthorized", "this needs the rollout's key")
        path = request.target.partition("?")[0]
        method = MODEL_PATHS.get(path)
        if method is None:
            raise TunnelRefusal(403, "forbidden", f"nothing but the model is here: {', '.join(MODEL_PATHS)}")
        if request.method != method:
            raise TunnelRefusal(405, "method_not_allowed", f"{path} takes {method}")
        if self._inspect is not None:
            try:
                self._inspect(request.body)
            except PaddockError as error:
                raise TunnelRefusal(403, "forbidden", "this call is not passed on") from error
        headers = {name: value for name, value in request.headers.items() if name in REQUEST_HEADERS}
        if method != "POST":
            return ModelRequest(method, path, headers, b"")
        checked = check_request(path, request.body if self._screen is None else self._screen(path, request.body))
        self._note(checked.left_out)
        return ModelRequest(method, path, headers, checked.body)

    def _note(self, left_out: Sequence[str]) -> None:
        """Log each field once in a rollout, and at most `MAX_NAMED`: whoever is inside chooses the names."""
        new_names = [name for name in dict.fromkeys(left_out) if name not in self.left_out]
        new_names = new_names[: MAX_NAMED - len(self.left_out)]
        if new_names:
            self.left_out.update(new_names)
            _log.warning(
                "tunnel: fields left out of a program's model calls: %s",
                ", ".join(repr(name[:64]) for name in new_names),
            )

    async def _relay(self, exchange: TunnelExchange, call: ModelRequest) -> None:
        try:
            async with asyncio.timeout(self._settings.call_timeout_s), self._upstream(call) as answer:
                await self._answer(exchange, call, answer)
        except (TunnelRefusal, _ClientGone):
            raise
        except Exception as error:  # whatever an upstream raises, the client inside gets the same
            text = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
            self.failure = InfraError(f"model call {call.path}: {self._clean(text.encode()).decode()}", kind="model")
            if exchange.answer_started:
                raise ConnectionError("cut") from error
            raise TunnelRefusal(502, "model_unreachable", "the model can't be reached") from error

    async def _answer(self, exchange: TunnelExchange, call: ModelRequest, answer: UpstreamAnswer) -> None:
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
            self._started_calls.add(_hash(call))
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
    keys = headers.get("authorization", "").removeprefix("Bearer "), headers.get("x-api-key", "")
    return any(hmac.compare_digest(key.encode(), api_key.encode()) for key in keys)


class _ClientGone(ConnectionError):  # noqa: N818 - whose it is is the point
    """The client's connection broke, not the upstream's."""


@contextlib.contextmanager
def _client() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _ClientGone(str(error)) from error


async def _start(body: AsyncIterator[bytes], size: int) -> bytes:
    data_read = b""
    async for data in body:
        data_read += data
        if len(data_read) >= size:
            break
    return data_read[:size]
