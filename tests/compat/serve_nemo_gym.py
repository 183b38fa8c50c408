"""One server of NeMo-Gym's own package, as its `run_webserver` makes it, without Ray and without a head server.

Run     under the interpreter of an environment with that package; one argument, JSON: `server` (`module:Class`),
        `config` (of that class, without place), `peers` (`{name: [host, port]}`). One line says where it listens.
"""

import asyncio
import importlib
import json
import socket
import sys
from typing import Any, get_type_hints

import uvicorn


def main() -> None:
    given = json.loads(sys.argv[1])
    sock = socket.create_server(("127.0.0.1", 0))
    asyncio.run(serve(given, sock))


async def serve(given: dict[str, Any], sock: socket.socket) -> None:
    utils = importlib.import_module("nemo_gym.server_utils")
    omegaconf = importlib.import_module("omegaconf")
    host, port = sock.getsockname()
    config = {"host": host, "port": port, "entrypoint": "app.py", **given["config"]}
    places = {**given["peers"], config["name"]: [host, port]}
    # Three levels, as theirs: name, kind, implementation.
    everybody = {name: {"kind": {"one": {"host": at[0], "port": at[1]}}} for name, at in places.items()}
    utils.set_global_aiohttp_client(utils.GlobalAIOHTTPAsyncClientConfig())
    client = utils.ServerClient(
        head_server_config={"host": host, "port": 1}, global_config_dict=omegaconf.OmegaConf.create(everybody)
    )
    module, _, name = given["server"].partition(":")
    cls = getattr(importlib.import_module(module), name)
    server = cls(config=get_type_hints(cls)["config"].model_validate(config), server_client=client)
    app = server.setup_webserver()
    server.setup_liveness(app)
    server.setup_exception_middleware(app)
    sys.stdout.write(f"listening at http://{host}:{port}\n")
    sys.stdout.flush()
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[sock])


if __name__ == "__main__":
    main()
