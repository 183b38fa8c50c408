"""vLLM servers as a trainer sees them: where their routes for weights are, how often they were started.

Source  `GET /replicas` of a model server `vllm`, whose routes `/replicas/NAME/CALL` pass calls on to each of them.
Errors  InfraError `replicas_unknown` when the model server does not say.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import httpx

from paddock.errors import InfraError
from paddock.http.access import bearer
from paddock.types import JsonObject

if TYPE_CHECKING:
    import torch

WeightsSource = Callable[[], Iterable[tuple[str, "torch.Tensor"]]]
"""Gives the weights to send, as often as it is called: names of the checkpoint format and whole tensors."""
REPLICAS_TIMEOUT_S = 30.0


class ReplicaInfo(NamedTuple):
    """One engine that samples, as the model server describes it."""

    name: str
    url: str
    """Root of its routes for weights."""
    n_starts: int
    """How often it was started: a restarted engine has none of the weights that were sent to it before."""
    token: str | None = None
    """What these routes ask for; None: nothing."""


class SendResult(NamedTuple):
    """The result of sending weights to all engines."""

    version: int
    replicas: tuple[str, ...]
    """Names of the engines that have the weights now."""
    pause_s: float
    """Until all engines were paused; they get their weights, and go on, at the same time."""
    send_s: float
    resume_s: float
    failed: Mapping[str, str] = {}
    """Names of the engines that have not, and why: dead, refusing, or broken during the sending."""


class StartCounter:
    """Counts the starts of one engine from what it shows: it has another port at each start, and the version of its
    weights is not a number until weights are sent to it. A version of None says nothing."""

    def __init__(self) -> None:
        self._count = 0
        self._url = ""
        self._sent = False

    def count(self, url: str, version: object) -> int:
        """How often the engine was started, with what it shows now."""
        sent = self._sent if version is None else isinstance(version, str) and version.isdecimal()
        if url != self._url or (self._sent and not sent):
            self._count += 1
        self._url, self._sent = url, sent
        return self._count


class ServerReplicas:
    """The engines of one model server, over its lifetime."""

    def __init__(self, server: str, role: str = "") -> None:
        """`server`: its name, for errors. `role`: before the names of engines, where there are several such servers."""
        self._server = server
        self._role = role
        self._starts: dict[str, StartCounter] = {}

    async def healthy(self, client: httpx.AsyncClient, url: str, token: str | None) -> list[ReplicaInfo]:
        """The engines that are healthy now. `url`: of the model server, which asks for `token`."""
        replicas: list[ReplicaInfo] = []
        for state in await self._states(client, url, token):
            name = str(state["name"])
            if state["state"] != "ready":
                continue
            counter = self._starts.setdefault(name, StartCounter())
            n_starts = counter.count(str(state["url"]), state.get("weight_version"))
            known = f"{self._role}/{name}" if self._role else name
            replicas.append(ReplicaInfo(known, f"{url}/replicas/{name}", n_starts, token))
        return replicas

    async def _states(self, client: httpx.AsyncClient, url: str, token: str | None) -> list[JsonObject]:
        try:
            answer = await client.get(f"{url}/replicas", headers=bearer(token), timeout=REPLICAS_TIMEOUT_S)
            answer.raise_for_status()
            states: list[JsonObject] = answer.json()["replicas"]
        except (httpx.HTTPError, KeyError, ValueError) as error:
            raise InfraError(f"{self._server}: which engines it has: {error}", kind="replicas_unknown") from error
        return states
