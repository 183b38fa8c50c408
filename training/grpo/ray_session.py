"""The Ray of a run: a cluster that runs already, or a local one, which is a cluster of one node.

Local   started here and ended here: loopback only, no dashboard, no usage report, calls by token where this Ray knows
        tokens. It dies with the process that started it, however that one ends, its actors with it.
Cluster joined and left; what asks for a token finds it where Ray looks for it (`RAY_AUTH_TOKEN`). Its nodes have this
        project and its interpreter at the same paths.
Errors  ConfigError `ray_missing`, `gpus_missing`, `placement`; InfraError `ray_start`.
"""

import asyncio
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import ConfigError, InfraError
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.placement import ClusterNode, RoleNeed, RolePlace, RolePlacement, place
from paddock.training.grpo.ray_folder import ray_folder

OBJECT_STORE_BYTES = 200 << 20
"""Batches and groups pass through it; they are small, and what does not fit is written to a file."""
START_ATTEMPTS = 4
RESERVE_S = 30.0
"""Time for Ray to reserve what was placed."""
LOOK_S = 1.0
_SHARE = 0.001
"""Of the resource that Ray makes of each node's address, by which a bundle is bound to the node."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Reservation(NamedTuple):
    """Where the roles run, and Ray's placement groups that hold it for them."""

    placement: RolePlacement
    roles: Any
    """With a bundle for each role."""
    ranks: Mapping[str, Any]
    """Of each vLLM that is spread over nodes, by its role: with a bundle for each rank."""

    def release(self) -> None:
        """Give all of it back; what still runs there ends."""
        from ray.util import remove_placement_group

        for group in (*self.ranks.values(), self.roles):
            remove_placement_group(group)


class RaySession:
    """A Ray that this process is a driver of."""

    def __init__(self, settings: ClusterConfig) -> None:
        import ray

        self._settings = settings
        self.own_node = str(ray.get_runtime_context().get_node_id())
        """Id of this process's node."""

    def nodes(self) -> list[ClusterNode]:
        """The nodes that are there: this process's first, then by address."""
        import ray

        nodes = [self._node(row) for row in ray.nodes() if row["Alive"]]
        return sorted(nodes, key=lambda node: (node.id != self.own_node, node.address))

    async def reserve(self, needs: Sequence[RoleNeed]) -> Reservation:
        """Places for the roles, which are this run's when this returns. Tried on the nodes that are there until
        `cluster.wait_s` is over (ConfigError with what lacks): some may join late, and one that died is known as such
        after a while."""
        deadline = time.monotonic() + (self._settings.wait_s if self._settings.address else 0.0)
        while True:
            try:
                return await _reserve(place(needs, self.nodes()))
            except ConfigError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(LOOK_S)

    def _node(self, row: Any) -> ClusterNode:
        gpus = min(int(row["Resources"].get("GPU", 0)), self._settings.gpus_per_node)
        return ClusterNode(row["NodeManagerHostname"], row["NodeManagerAddress"], row["NodeID"], gpus, row["Labels"])


async def _reserve(placement: RolePlacement) -> Reservation:
    """Placement groups with a bundle for each place, in their order, and for each rank of a spread vLLM."""
    from ray.util import placement_group

    made = Reservation(
        placement,
        placement_group([_bundle(place.node, place.gpus) for place in placement.all], strategy="PACK"),
        {
            place.role: placement_group([_bundle(node, place.gpus_per_rank) for node in place.ranks], strategy="PACK")
            for place in placement.engines
            if place.ranks
        },
    )
    deadline = time.monotonic() + RESERVE_S
    for group in (made.roles, *made.ranks.values()):
        if not await asyncio.to_thread(group.wait, max(0.0, deadline - time.monotonic())):
            made.release()
            what = "; ".join(map(_text, placement.all))
            raise ConfigError(f"not free within {RESERVE_S:g} s, another job may hold it: {what}", kind="placement")
    return made


def _bundle(node: ClusterNode, gpus: int) -> dict[str, float]:
    return {f"node:{node.address}": _SHARE, **({"GPU": gpus} if gpus else {})}


def _text(place: RolePlace) -> str:
    if not place.ranks:
        return f"{place.role} on {place.node}, {place.gpus} GPUs"
    counts = {str(node): place.gpus_on(node) for node in place.ranks}
    return f"{place.role} on {', '.join(f'{node}, {gpus} GPUs' for node, gpus in counts.items())}"


@contextmanager
def ray_session(settings: ClusterConfig) -> Iterator[RaySession]:
    """The Ray of the settings, for the time of a run."""
    own = _LOCAL_ENV | {"RAY_AUTH_TOKEN": secrets.token_urlsafe(32)} if settings.address is None else {}
    os.environ.update({**_ENV, **own})  # before its import: it reads them there
    try:
        import ray
    except ImportError as error:
        raise ConfigError("training needs ray: pip install 'paddock[train]'", kind="ray_missing") from error
    if settings.address is not None:
        try:
            _join(ray, settings.address)
            yield RaySession(settings)
        finally:
            ray.shutdown()
        return
    _require_visible(settings.gpus_per_node)
    with ray_folder(Path(tempfile.gettempdir())) as folder:
        try:
            _start(ray, folder, settings.gpus_per_node)
            yield RaySession(settings)
        finally:
            ray.shutdown()


_ENV = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A role's own settings decide which devices it sees.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_LOCAL_ENV = {
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",
    # Its name is history: without clusters, a Ray listens on loopback alone.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def _require_visible(gpus: int) -> None:
    visible = os.environ.get(_VISIBLE)
    if visible is not None and len(visible.split(",")) < gpus:
        raise ConfigError(
            f"cluster.gpus_per_node is {gpus}, but {_VISIBLE} names {len(visible.split(','))}", kind="gpus_missing"
        )


def _join(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise InfraError(
            f"no Ray at cluster.address {address}, or its token (RAY_AUTH_MODE, RAY_AUTH_TOKEN) is not this one: "
            f"{error}",
            kind="ray_start",
            retryable=False,
        ) from error


def _start(ray: Any, folder: Path, gpus: int) -> None:
    """Start Ray, in several tries: it gives its own start half a minute, which is too short on a loaded machine."""
    for attempts_left in reversed(range(START_ATTEMPTS)):
        try:
            ray.init(
                address="local",
                num_cpus=1,
                num_gpus=gpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder),
            )
            return
        except Exception as error:
            ray.shutdown()
            if not attempts_left:
                raise InfraError(f"Ray did not start: {error}", kind="ray_start", retryable=False) from error
