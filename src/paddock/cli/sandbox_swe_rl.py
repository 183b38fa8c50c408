"""`paddock sandbox swe-rl`: what the published swe-rl recipe asks for containers, until a signal.

Output  stdout: the URL when it is ready, and the variable that its client is to be started with. stderr: logs.
Exit    0 ended by SIGINT, SIGTERM or SIGHUP; 1 no sandbox can be started here; 2 a mistake in the command.
"""

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.sandbox_serve import STOP_MARGIN_S, add_address_arguments, read_settings

if TYPE_CHECKING:
    from paddock.sandbox_server.swe_rl import SweRlSettings
    from paddock.server.sockets import Address

NAME = "swe-rl server"
PORT = 18090
"""Where the client looks unless it is told."""
CLIENT_VARIABLE = "SWE_ENV_SERVER_URL"
NODES_VARIABLE = "SWE_EXEC_SERVER_URLS"
HEALTH_TIMEOUT_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--settings", type=Path, metavar="FILE", help="YAML with its keys (docs/settings.md)")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="rows whose patches are graded by name of their tests"
    )
    add_address_arguments(parser, port=PORT)


def run(args: argparse.Namespace) -> int:
    from paddock.http.access import find_token
    from paddock.server.loops import run_until_signalled
    from paddock.server.sockets import Address, require_token

    settings = _settings(args)
    token = find_token(args.token_file)
    require_token(NAME, args.host, token)
    serving = _serve(settings, Address(args.host, args.port), token, args.rows)
    return run_until_signalled(serving, stop_timeout_s=settings.sandbox.stop_timeout_s + STOP_MARGIN_S)


async def _serve(settings: "SweRlSettings", address: "Address", token: str | None, rows: Path | None) -> int:
    from contextlib import AsyncExitStack

    from paddock.sandbox_server.swe_rl import serve_swe_rl
    from paddock.server.access import make_access, tokens_for_clients
    from paddock.server.sockets import bind

    access = make_access(token, make=True)
    assert access.token is not None  # one is made where none is configured
    async with AsyncExitStack() as stack:
        grade_row = None
        if rows is not None:
            from paddock.resources_servers.swe.predictions import open_row_grader

            sandbox = settings.sandbox.model_copy(update={"nodes": (), "provider": None})
            grader = open_row_grader(rows, sandbox, max_concurrent=settings.max_concurrent_gradings)
            grade_row = await stack.enter_async_context(grader)
        bound = bind(NAME, address)
        await stack.enter_async_context(serve_swe_rl(settings, bound, access=access, grade_row=grade_row))
        place, word = bound.url.removeprefix("http://"), "TOKEN"
        if access.made:
            files = stack.enter_context(tokens_for_clients(access.token, {NAME: bound}, required=True))
            word = f"$(sed 's/.* //' {files[NAME]})"
        _say(bound.url)
        _say(f"export {CLIENT_VARIABLE}=http://paddock:{word}@{place}")
        await asyncio.Event().wait()
    return 0


def _settings(args: argparse.Namespace) -> "SweRlSettings":
    from paddock.config.validation import validate
    from paddock.sandbox_server.swe_rl import SweRlSettings

    keys = read_settings(args.settings)
    sandbox = dict(keys.get("sandbox") or {})
    if args.home is not None:
        sandbox["home"] = str(args.home.absolute())
    urls = [url.strip() for url in os.environ.get(NODES_VARIABLE, "").split(",") if url.strip()]
    if urls and not (sandbox.get("nodes") or sandbox.get("provider")):
        for url in urls:
            _require_node(url)
        sandbox["nodes"] = urls
    return validate(SweRlSettings, {**keys, "sandbox": sandbox}, "swe_rl")


def _require_node(url: str) -> None:
    """ConfigError unless it is a node of ours: exec servers of the recipe have another wire."""
    import httpx

    from paddock.errors import ConfigError

    try:
        health = httpx.get(f"{url.rstrip('/')}/healthz", timeout=HEALTH_TIMEOUT_S).json()
        why_not = "answers, and is none" if not isinstance(health, dict) or health.get("kind") != "sandbox_node" else ""
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        why_not = f"does not answer as one: {error}"
    if why_not:
        raise ConfigError(
            f"{NODES_VARIABLE}: {url} is to be a node of Paddock (`paddock sandbox serve`), and {why_not}; exec "
            "servers of the recipe's own are not used from here: unset the variable, or keep their pool for them",
            kind="nodes_unusable",
        )


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is the command's voice
