"""`python -P serve.py CONFIG`: a server or an agent of NeMo-Gym's, run by its own entry file, without Ray's start.

Run     under the interpreter of an environment with that package, in the server's folder; imports nothing of ours.
CONFIG  a JSON file, removed once it is read: `config` (the whole of NeMo-Gym's config), `name` (of the instance),
        `entry` (its file), `relay_url` (where it reaches servers of ours), `model_url` (part of that: an agent's model
        server; else empty), `ray` (options of its start), `ready` (a file that is written, with the port, when it
        serves).
Law     Ray starts, without its dashboard, for a server whose files import it; theirs starts it for every server.
        Requests to `relay_url`, and those to itself, name the request that they are made for, so a failed one is known
        to its verdict. Those to `model_url` go to the endpoint that this request names, with its key: it is its
        rollout's own.
"""

import contextvars
import functools
import importlib
import json
import os
import re
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

HEADER = "x-request-id"
ENDPOINT = "x-paddock-model"
"""Base URL of the rollout's own endpoint and its key, with a space between."""
_RAY = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)
_request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="")
_endpoint: contextvars.ContextVar[str] = contextvars.ContextVar("endpoint", default="")


def main() -> None:
    file = Path(sys.argv[1])
    given = json.loads(file.read_text())
    file.unlink()
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = given["config"]
    (block,) = (one for kind in config[given["name"]].values() for one in kind.values())
    block["host"], block["port"] = sock.getsockname()
    os.environ["NEMO_GYM_CONFIG_DICT"] = json.dumps(config)
    os.environ["NEMO_GYM_CONFIG_PATH"] = given["name"]
    utils: Any = importlib.import_module("nemo_gym.server_utils")
    uvicorn: Any = importlib.import_module("uvicorn")
    utils.get_global_config_dict()
    # What it starts, such as a program that a model wrote, is not to read it.
    del os.environ["NEMO_GYM_CONFIG_DICT"]
    utils.initialize_ray = functools.partial(_start_ray, given["ray"]) if _uses_ray(Path.cwd()) else lambda: None
    own_url = f"http://{block['host']}:{block['port']}"
    utils.request = _naming(utils.request, (given["relay_url"], own_url), given["model_url"])
    uvicorn.run = _serving(uvicorn, sock, Path(given["ready"]))
    sys.argv = [given["entry"]]
    runpy.run_path(given["entry"], run_name="__main__")


def _uses_ray(folder: Path) -> bool:
    files = (file for file in folder.rglob("*.py") if "tests" not in file.relative_to(folder).parts)
    return any(_RAY.search(file.read_text(errors="replace")) for file in files)


def _start_ray(options: dict[str, Any]) -> None:
    ray: Any = importlib.import_module("ray")
    ray.init(include_dashboard=False, ignore_reinit_error=True, **options)


def _naming(send: Any, named_urls: tuple[str, ...], model_url: str) -> Any:
    async def request(method: str, url: str, **options: Any) -> Any:
        headers = dict(options.get("headers") or {})
        if model_url and url.startswith(f"{model_url}/") and _endpoint.get():
            base_url, key = _endpoint.get().split(" ")
            url = base_url + url.removeprefix(model_url)
            headers["authorization"] = f"Bearer {key}"
        elif url.startswith(named_urls):
            headers |= {HEADER: _request.get(), ENDPOINT: _endpoint.get()}
        return await send(method=method, url=url, **{**options, "headers": headers})

    return request


def _serving(uvicorn: Any, sock: socket.socket, ready: Path) -> Any:
    class SaysReady(uvicorn.Server):  # type: ignore[misc]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            if self.started:
                part = ready.with_suffix(".part")
                part.write_text(str(sock.getsockname()[1]))
                part.replace(ready)

    def run(app: Any, **options: Any) -> None:
        kept = {name: value for name, value in options.items() if name not in ("host", "port", "workers")}
        SaysReady(uvicorn.Config(_named(app), **{**kept, "access_log": False})).run(sockets=[sock])

    return run


def _named(app: Any) -> Any:
    async def named(scope: Any, receive: Any, send: Any) -> None:
        for name, value in scope.get("headers", ()):
            if name == HEADER.encode():
                _request.set(value.decode())
            elif name == ENDPOINT.encode():
                _endpoint.set(value.decode())
        await app(scope, receive, send)

    return named


if __name__ == "__main__":
    main()
