"""Control of one vLLM over HTTP around an update: health, pause, resume, version label, and the calls of the update.

Source  vLLM 0.32, `entrypoints/rl/online/api_router.py` and `serve/dev/sleep`;
        the routes are there with `VLLM_SERVER_DEV_MODE=1` alone.
Law     `/pause` always has `mode=keep`: without it vLLM ends what runs. Every call has a deadline, in seconds: a vLLM
        whose engine died may keep its process, and not answer at all.
Errors  InfraError: no answer, or another than 200.
"""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from paddock.errors import InfraError
from paddock.http.access import bearer
from paddock.types import JsonObject

HEALTH_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 120.0
"""A pause waits for what the engine computes at that moment."""
UPDATE_TIMEOUT_S = 3600.0
"""For the calls that last as long as a transfer does, which ends them before."""
SLEEP_TIMEOUT_S = 300.0
"""Gigabytes of weights go to memory of the CPU, or come back."""
RESUME_ATTEMPTS = 3
RETRY_S = 0.2


class ReplicaControl:
    """Controls one vLLM, at its own root or at that of a model server's routes to it, which ask for the token.
    `transport`: used in place of the network."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        health_timeout_s: float = HEALTH_TIMEOUT_S,
        retry_s: float = RETRY_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._headers = bearer(token)
        self._health_timeout_s = health_timeout_s
        self._retry_s = retry_s
        self._transport = transport
        self._verify = url.startswith("https")  # or certificates are read for each call

    def check_health(self) -> None:
        """InfraError where the vLLM is not healthy. To be called first: a rendezvous with a dead one takes minutes to
        fail."""
        self._call("GET", "/health", timeout_s=self._health_timeout_s)

    def pause(self, *, clear_cache: bool) -> None:
        """Pause, keeping the requests that run. With `clear_cache` their prefixes are computed again under the new
        weights."""
        how = {"mode": "keep", "clear_cache": str(clear_cache).lower()}
        self._call("POST", "/pause", params=how, json=how)  # vLLM reads the query, and a model server the body

    def resume(self) -> None:
        """Resume, with several tries: a vLLM that stays paused answers nothing, and looks healthy."""
        for left in reversed(range(RESUME_ATTEMPTS)):
            try:
                self._call("POST", "/resume", json={})
            except InfraError:
                if not left:
                    raise
                time.sleep(self._retry_s)
            else:
                return

    def sleep(self) -> None:
        """Pause, keeping the requests that run, and give the GPU's memory back: weights are kept in memory of the CPU,
        and the cache is forgotten. On a CPU nothing is given back. Again: nothing happens."""
        how: dict[str, str | int] = {"level": 1, "mode": "keep"}
        self._call("POST", "/sleep", params=how, json=how, timeout_s=SLEEP_TIMEOUT_S)

    def wake_up(self, tags: str | None = None) -> None:
        """Take memory for `weights` or `kv_cache`; None: for all that sleeps. With the last of it sampling resumes."""
        how = {} if tags is None else {"tags": tags}
        self._call("POST", "/wake_up", params=how, json=how, timeout_s=SLEEP_TIMEOUT_S)

    def set_version(self, label: str) -> None:
        self._call("POST", "/update_weight_version", json={"new_version": label})

    def n_workers(self) -> int:
        body = self._call("GET", "/get_world_size").json()
        if not isinstance(body, dict) or not isinstance(count := body.get("world_size"), int) or count < 1:
            raise InfraError(f"{self.url}: /get_world_size answered {body!r}, not a number of workers", kind="replica")
        return count

    def forget_trainer(self) -> None:
        self._call("POST", "/shutdown_weight_transfer_engine", json={}, timeout_s=self._health_timeout_s)

    def init_weight_transfer_engine(self, init_info: JsonObject) -> None:
        self._call("POST", "/init_weight_transfer_engine", json={"init_info": init_info}, timeout_s=UPDATE_TIMEOUT_S)

    def start_weight_update(self) -> None:
        self._call("POST", "/start_weight_update", json={}, timeout_s=UPDATE_TIMEOUT_S)

    def update_weights(self, update_info: JsonObject) -> None:
        self._call("POST", "/update_weights", json={"update_info": update_info}, timeout_s=UPDATE_TIMEOUT_S)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """End the update; `weight_version` is the label of what was sent, None leaves the label."""
        body: JsonObject = {} if weight_version is None else {"weight_version": weight_version}
        self._call("POST", "/finish_weight_update", json=body, timeout_s=UPDATE_TIMEOUT_S)

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        json: Mapping[str, Any] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> httpx.Response:
        try:
            # Not through a proxy of the environment: replicas are beside the trainer, or in its cluster.
            with httpx.Client(
                transport=self._transport, verify=self._verify, timeout=timeout_s, trust_env=False
            ) as client:
                answer = client.request(method, f"{self.url}{path}", params=params, json=json, headers=self._headers)
        except httpx.HTTPError as error:
            raise InfraError(f"{self.url}: {method} {path}: {type(error).__name__} {error}", kind="replica") from error
        if answer.status_code != httpx.codes.OK:
            raise InfraError(
                f"{self.url}: {method} {path} answered {answer.status_code}: {answer.text[:300]}", kind="replica"
            )
        return answer
