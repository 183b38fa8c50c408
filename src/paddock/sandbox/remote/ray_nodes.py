"""The nodes of a Ray cluster that serve sandboxes: those that carry the label `paddock-sandboxes`.

Label   its value is the port at which `paddock sandbox serve` listens on the node's address; `https-PORT`: with TLS.
Process a child asks Ray (`ray_lister`). Ray ends the process of a driver when the cluster's head is gone for a while,
        and no process is in two clusters: neither may cost an agent its rollouts.
Errors  ConfigError `ray_missing`; SandboxError `ray_unreachable`.
"""

import asyncio
import json
import logging
import re
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paddock.errors import ConfigError
from paddock.processes import reap
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.remote.ray_lister import LABEL

ANSWER_TIMEOUT_S = 30.0
"""For an answer of Ray, the connection to the cluster included."""
MAX_ANSWER_BYTES = 1 << 24
NO_NODE = (
    f"no node of the Ray cluster carries the label {LABEL}: start Ray with `--labels {LABEL}=PORT` on each machine "
    "where `paddock sandbox serve` listens at that port"
)
_WHERE = "a cluster's address is RAY_ADDRESS, and its token, if it has one, RAY_AUTH_TOKEN"
_LISTER = Path(__file__).with_name("ray_lister.py")
_VALUE = re.compile(r"(?:(https)-)?([1-9][0-9]{0,4})")
_log = logging.getLogger("paddock.sandbox")


class RayNodes:
    """Asks the cluster that this process is part of, else that of RAY_ADDRESS or of this machine."""

    def __init__(self) -> None:
        if find_spec("ray") is None:
            raise ConfigError("sandbox.nodes: ray: needs ray: pip install 'paddock[train]'", kind="ray_missing")
        self._child: asyncio.subprocess.Process | None = None
        self._ignored: set[str] = set()
        """Labels that are no port, of which the log has told."""

    async def find(self) -> list[str]:
        """The URLs of the nodes that are there."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await self._ask()
        except OSError as error:
            answer = {"error": str(error) or f"no answer within {ANSWER_TIMEOUT_S:g} s"}
        if isinstance(answer, dict):
            await self.close()
            message = f"sandbox.nodes: ray: {answer['error']}; {_WHERE}"
            raise SandboxError(message, kind="ray_unreachable")
        urls = {self._url(address, value) for address, value in answer}
        return sorted(url for url in urls if url is not None)

    async def close(self) -> None:
        """Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            with suppress(ProcessLookupError):
                child.kill()
            await reap(child)

    async def _ask(self) -> Any:
        if self._child is None:
            self._child = await _start()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(b"\n")
        try:
            return json.loads(await self._child.stdout.readline())
        except ValueError:
            return {"error": "the process that asks Ray has ended"}

    def _url(self, address: str, value: str) -> str | None:
        match = _VALUE.fullmatch(value)
        if match is None or int(match[2]) >= 1 << 16:
            if value not in self._ignored:
                _log.warning("%s: the label %s=%s names no port: the node is not used", address, LABEL, value)
                self._ignored.add(value)
            return None
        host = f"[{address}]" if ":" in address else address
        return f"{match[1] or 'http'}://{host}:{match[2]}"


async def node_urls(nodes: "tuple[str, ...] | str") -> list[str]:
    """The URLs of `sandbox.nodes` at this moment; SandboxError where there is none."""
    if not isinstance(nodes, str):
        return list(nodes)
    finder = RayNodes()
    try:
        urls = await finder.find()
    finally:
        await finder.close()
    if not urls:
        raise SandboxError(NO_NODE, kind="no_nodes")
    return urls


async def _start() -> asyncio.subprocess.Process:
    # -P: beside it there are modules with names of Python's own.
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_LISTER), _cluster()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=MAX_ANSWER_BYTES,
        start_new_session=True,
    )


def _cluster() -> str:
    """The address of the cluster that this process is part of, if it is of one."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    return "auto"
