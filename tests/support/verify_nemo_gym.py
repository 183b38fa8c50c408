"""Verdicts of one resources server of NeMo-Gym's package, its own `verify` called without a server around it.

Run     under the interpreter of an environment with that package (and what the server's requirements name). Standard
        input, JSON: `server` (`module:Class`), `config` (of that class, without place), `bodies` (of `/verify`).
        Standard output, JSON: `rewards`, null where it raised.
"""

import asyncio
import contextlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, get_type_hints


def main() -> None:
    given = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        found = asyncio.run(judge(given))
    json.dump(found, sys.stdout)


async def judge(given: dict[str, Any]) -> dict[str, Any]:
    name, _, class_name = given["server"].partition(":")
    module = importlib.import_module(name)
    cls = getattr(module, class_name)
    place = {"name": "verifier", "host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "domain": "other"}
    os.chdir(Path(str(module.__file__)).parent)
    server = cls.model_construct(config=get_type_hints(cls)["config"].model_validate({**place, **given["config"]}))
    body_type = get_type_hints(cls.verify)["body"]
    bodies = [body_type.model_validate(body) for body in given["bodies"]]
    return {"rewards": [await reward(server, body) for body in bodies]}


async def reward(server: Any, body: Any) -> float | None:
    try:
        return float((await server.verify(body)).reward)
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return None


if __name__ == "__main__":
    main()
