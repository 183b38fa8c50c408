"""HTTP client of one registry: its address, its login, and what may be asked over plain http.

Plain   http is spoken to loopback hosts, and elsewhere only when `insecure` says so; a redirect is held to the same.
Login   a 401 says how: `Basic`, or `Bearer` with a token of its realm, fetched once per repository and again when it
        has expired. Credentials go to the registry and its realm; a redirect to another host loses them.
Size    an answer that is read whole has at most `MAX_JSON` bytes, decompressed, and the rest is not read.
Errors  ImageMissing for 404, and for 401 and 403 once we have said who we are (registries answer so for images that
        don't exist); others as `retry` says.
"""

import asyncio
import base64
import ipaddress
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

import httpx

from paddock.errors import InfraError
from paddock.sandbox.failures import ImageInvalid, ImageMissing
from paddock.sandbox.images.registry.credentials import DOCKER_HUB, Credentials, find_credentials
from paddock.sandbox.images.registry.retry import Backoff, check_status, persist

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_MAX_REDIRECTS = 5
MAX_JSON = 8 << 20
"""Bytes of a manifest, an index or a config; those of real images have some kB, and registries take 4 MiB at most."""


class RegistryOptions(NamedTuple):
    """Options of requests to registries."""

    connections: int = 4
    """Blobs that are fetched at once, over all images and registries."""
    backoff: Backoff = Backoff()
    stall_s: float = 60.0
    """Without a byte for so long, a connection counts as lost."""
    connect_s: float = 15.0
    insecure: frozenset[str] = frozenset()
    """Hosts (`host` or `host:port`) that may be asked over plain http."""


class Registry:
    """One registry's host."""

    def __init__(self, host: str, options: RegistryOptions, *, credentials: Credentials | None = None) -> None:
        self.host = host or DOCKER_HUB
        self.options = options
        self._plain = self.host in options.insecure or is_loopback(self.host)
        self._credentials = credentials or find_credentials(self.host)
        self._authorization: dict[str, str] = {}
        self._login = asyncio.Lock()
        self._client = httpx.AsyncClient(
            base_url=f"{'http' if self._plain else 'https'}://{self.host}",
            follow_redirects=True,
            max_redirects=_MAX_REDIRECTS,
            timeout=httpx.Timeout(options.stall_s, connect=options.connect_s, pool=None),
            event_hooks={"request": [self._check_scheme]},
            # A proxy of the environment can't reach this machine's own loopback.
            trust_env=not is_loopback(self.host),
            headers={"user-agent": "paddock"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._client.aclose()

    async def get(self, repository: str, path: str, *, accept: str = "*/*") -> bytes:
        """A small answer, whole."""

        async def attempt() -> bytes:
            async with self.stream(repository, path, {"accept": accept}) as response:
                return await _whole(response, self.name_of(repository, path))

        return await persist(attempt, self.options.backoff, self.name_of(repository, path))

    def name_of(self, repository: str, path: str) -> str:
        """The name of a resource in messages."""
        return f"{self.host}/{repository}: {path}"

    @asynccontextmanager
    async def stream(self, repository: str, path: str, headers: dict[str, str]) -> AsyncIterator[httpx.Response]:
        """One attempt at `/v2/<repository>/<path>`: its answer is 2xx (or 416), else this raises."""
        url = f"/v2/{repository}/{path}"
        what = self.name_of(repository, path)
        for _login in range(2):
            authorization = self._authorization.get(repository)
            request = self._client.build_request(
                "GET", url, headers={**headers, **({"authorization": authorization} if authorization else {})}
            )
            try:
                response = await self._client.send(request, stream=True)
            except httpx.TooManyRedirects:
                raise InfraError(f"{what}: redirected without end", kind="registry") from None
            try:
                if response.status_code == 401 and _login == 0:
                    await self._authorize(repository, response.headers.get("www-authenticate", ""), authorization)
                    continue
                self._check(response, what)
                yield response
                return
            finally:
                await response.aclose()

    def _check(self, response: httpx.Response, what: str) -> None:
        check_status(response, what)
        status = response.status_code
        if status in (401, 403, 404):
            with_or_without = "with" if self._credentials else "without"
            hint = "" if status == 404 else f" ({status}, asked {with_or_without} credentials)"
            raise ImageMissing(f"{what}: not there, or not for us{hint}", kind="image_missing")
        if not response.is_success and status != 416:
            raise InfraError(f"{what}: the registry answered {status}", kind="registry", retryable=False)

    async def _authorize(self, repository: str, challenge: str, refused: str | None) -> None:
        """Learn the Authorization header for a repository."""
        async with self._login:
            if self._authorization.get(repository) != refused:
                return
            scheme, _, rest = challenge.partition(" ")
            if scheme.lower() == "bearer":
                self._authorization[repository] = f"Bearer {await self._token(repository, rest)}"
            elif scheme.lower() == "basic" and self._credentials is not None:
                pair = f"{self._credentials.user}:{self._credentials.password}".encode()
                self._authorization[repository] = f"Basic {base64.b64encode(pair).decode()}"

    async def _token(self, repository: str, challenge: str) -> str:
        parameters = dict(_PARAMETER.findall(challenge))
        realm = parameters.get("realm", "")
        query = {"scope": parameters.get("scope") or f"repository:{repository}:pull"}
        if service := parameters.get("service"):
            query["service"] = service
        auth = httpx.BasicAuth(*self._credentials) if self._credentials else None
        async with self._client.stream("GET", realm, params=query, auth=auth) as response:
            check_status(response, f"{self.host}: login")
            answer = await _whole(response, f"{self.host}: login")
        try:
            body = json.loads(answer) if response.is_success else {}
            token = body.get("token") or body.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str):
            raise ImageMissing(
                f"{self.host}/{repository}: login was refused ({response.status_code})", kind="image_missing"
            )
        return token

    async def _check_scheme(self, request: httpx.Request) -> None:
        """Every hop, also of a redirect and to a realm."""
        url = request.url
        host = url.netloc.decode()
        here = is_loopback(host) and is_loopback(self.host)
        if url.scheme == "https" or (url.scheme == "http" and (here or host in self.options.insecure)):
            return
        raise InfraError(
            f"{self.host} leads to {url.scheme}://{host}, and only https is spoken beyond this machine "
            "(--insecure HOST allows it)",
            kind="registry",
            retryable=False,
        )


async def _whole(response: httpx.Response, what: str) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_JSON:
            raise ImageInvalid(f"{what}: the answer has more than {MAX_JSON >> 20} MiB", kind="manifest")
    return bytes(body)


def is_loopback(host: str) -> bool:
    """Whether `host[:port]` is this machine, by what it is called alone."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    name = name.strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
