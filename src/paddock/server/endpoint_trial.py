"""The trial of a model's endpoint before a run: whether somebody answers there, takes the key and has the model.

Asks    for its list of models, which costs nothing. Only where that decides nothing (there is no list, the key may not
        read it, the model is not in it: many endpoints take more names than they list) one request of a few tokens.
Wrong   ConfigError, with the URL, the status and what would be right: no server, another path, a key that is refused,
        a name that the endpoint does not have.
May be  what may pass (408, 425, 429, 5xx, no answer in time) and what a refusal leaves open is a warning: the run
        starts, and its own retries deal with it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import aiohttp
import httpx
import orjson

from paddock.config.problems import nearest
from paddock.errors import ConfigError
from paddock.http.transport import failure_text, make_session
from paddock.server.upstream_exchange import EndpointUrl, headers_to
from paddock.server.upstream_failures import MAX_TEXT, error_text, host_of

MOST_NAMED = 10
MAX_BYTES = 4 << 20
"""Of an answer that are read; a longer one is no list of models."""
MAX_ANSWER_TOKENS = 16
"""Of the one request: the Responses API takes no fewer."""
_KEY = (401, 403)
_PASSING = (408, 425, 429)


class UpstreamEndpoint(NamedTuple):
    """What a model server calls."""

    urls: Sequence[str]
    """Base URLs, with `/v1`."""
    headers: Mapping[str, str]
    model: str
    api: Literal["chat", "responses"]


class EndpointAnswer(NamedTuple):
    """A status and what came with it."""

    url: str
    """Without user and password."""
    status: int
    content: bytes


async def try_endpoint(server: str, endpoint: UpstreamEndpoint, timeout_s: float) -> list[str]:
    """Warnings about an endpoint; `server`: the model server's name, `timeout_s`: seconds for each of its URLs.
    ConfigError: it can't work."""
    async with make_session(decompress=True) as session:
        found = await asyncio.gather(*(_try_url(server, endpoint, url, session, timeout_s) for url in endpoint.urls))
    return [warning for warning in found if warning is not None]


async def _try_url(
    server: str, endpoint: UpstreamEndpoint, base_url: str, session: aiohttp.ClientSession, timeout_s: float
) -> str | None:
    shown = _shown(base_url)
    try:
        async with asyncio.timeout(timeout_s):
            return await _verdict(server, endpoint, base_url, session)
    except TimeoutError:
        return f"{server}: {shown} did not answer within {timeout_s:g} s"
    except aiohttp.ClientConnectorError as error:
        raise ConfigError(
            f"{server}: no server answers at {shown}: {failure_text(error)}; `base_url` is the address of an "
            "OpenAI-compatible endpoint, with `/v1`",
            kind="endpoint_unreachable",
        ) from error
    except ValueError as error:
        raise ConfigError(f"{server}: {shown} can't be asked: {error}", kind="endpoint_url") from error
    except aiohttp.ClientError as error:
        return f"{server}: {shown}: {type(error).__name__}: {failure_text(error)[:MAX_TEXT]}"


async def _verdict(
    server: str, endpoint: UpstreamEndpoint, base_url: str, session: aiohttp.ClientSession
) -> str | None:
    """A warning, or None: all is well."""
    listed = await _ask(session, f"{base_url}/models", endpoint)
    if _may_pass(listed.status):
        return _warning(server, listed)
    names = _names(listed) if listed.status == 200 else []
    if endpoint.model in names:
        return None
    answer = await _ask(session, f"{base_url}{_PATHS[endpoint.api]}", endpoint, _request(endpoint))
    if answer.status < 300:
        return None
    if _may_pass(answer.status):
        return _warning(server, answer)
    if answer.status in _KEY:
        # Its words are left out: some endpoints repeat the key.
        raise ConfigError(
            f"{server}: {answer.url} answered {answer.status}: it does not take the key; `api_key` is the key's place",
            kind="endpoint_key",
        )
    if answer.status == 404 or names:
        raise ConfigError(f"{server}: {_refusal(answer)}; {_way_out(endpoint, names)}", kind="endpoint_model")
    return _warning(server, answer)


async def _ask(
    session: aiohttp.ClientSession, url: str, endpoint: UpstreamEndpoint, body: bytes | None = None
) -> EndpointAnswer:
    target = EndpointUrl(url)
    headers = headers_to(target, endpoint.headers)
    method = "GET" if body is None else "POST"
    async with session.request(method, target.target, data=body, headers=headers, allow_redirects=False) as response:
        content = bytearray()
        async for part in response.content.iter_any():
            content += part
            if len(content) > MAX_BYTES:
                break
        return EndpointAnswer(_shown(url), response.status, bytes(content))


_PATHS = {"chat": "/chat/completions", "responses": "/responses"}


def _request(endpoint: UpstreamEndpoint) -> bytes:
    body: dict[str, Any] = {"model": endpoint.model}
    if endpoint.api == "chat":
        body |= {"messages": [{"role": "user", "content": "Say ok."}], "max_completion_tokens": MAX_ANSWER_TOKENS}
    else:
        body |= {"input": "Say ok.", "max_output_tokens": MAX_ANSWER_TOKENS, "store": False}
    return orjson.dumps(body)


def _names(listed: EndpointAnswer) -> list[str]:
    """The models that the endpoint lists; none where it is no list."""
    try:
        whole = orjson.loads(listed.content)
    except orjson.JSONDecodeError:
        return []
    data = whole.get("data") if isinstance(whole, dict) else None
    ids = [one.get("id") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
    return [name for name in ids if isinstance(name, str)]


def _way_out(endpoint: UpstreamEndpoint, names: Sequence[str]) -> str:
    if not names:
        return f"check `base_url`, which ends in `/v1`, and `model`, which is `{endpoint.model}`"
    close = nearest(endpoint.model, names)
    first = [close, *(name for name in names if name != close)] if close else list(names)
    more = f" and {len(first) - MOST_NAMED} more" if len(first) > MOST_NAMED else ""
    return f"`model` is `{endpoint.model}`, and the endpoint lists {', '.join(first[:MOST_NAMED])}{more}"


def _may_pass(status: int) -> bool:
    return status in _PASSING or status >= 500


def _warning(server: str, answer: EndpointAnswer) -> str:
    return f"{server}: {_refusal(answer)}; the run starts all the same"


def _refusal(answer: EndpointAnswer) -> str:
    return f"{answer.url} answered {answer.status}: {error_text(answer.content)[0]}"


def _shown(url: str) -> str:
    parsed = httpx.URL(url)
    return f"{parsed.scheme}://{host_of(parsed)}{parsed.path}"
