"""The job of a run on Kubernetes: a `RayJob` of KubeRay, whose operator starts the cluster and the run, and ends both.

Files   the working directory lies on a volume that all pods see at the same path (`kube_claim`): config, rows, the
        run's folder, and `entry.sh`, which the job runs on the head.
Names   variables of the environment come from one Secret of the user's, key by key. KubeRay makes Ray's token itself.
Ends    the cluster with the job; a failed job is tried again on a new cluster, and goes on from its newest checkpoint.
Source  ray-project/kuberay, `ray-operator/apis/ray/v1/rayjob_types.go`.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddock.training.launch.kube_groups import NodeGroup
from paddock.training.launch.kube_sandboxes import TOKEN_FILE, TOKEN_VOLUME, token_volume
from paddock.training.launch.settings import RunLaunchSettings
from paddock.training.launch.slurm import minutes

GPU = "nvidia.com/gpu"
FILES_VOLUME = "files"
_MEMORY = re.compile(r"(\d+)([KMGT]?)")


class KubeShape(NamedTuple):
    """What a job runs on."""

    folder: Path
    """The working directory."""
    entry: Path
    """The script that the job runs."""
    groups: Sequence[NodeGroup]
    """The head's first."""
    gpus: int
    """Of each pod."""
    names: Sequence[str]
    """Variables that the pods have from the Secret."""


def ray_job(settings: RunLaunchSettings, shape: KubeShape) -> dict[str, Any]:
    """The manifest."""
    head, *others = shape.groups
    workers = [*([head._replace(size=head.size - 1)] if head.size > 1 else []), *others]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata(settings, settings.exp_name),
        "spec": {
            "entrypoint": shlex.join(["bash", str(shape.entry)]),
            "submissionMode": "K8sJobMode",
            "shutdownAfterJobFinishes": True,
            "backoffLimit": settings.kube_backoff_limit,
            "activeDeadlineSeconds": max(1, round(minutes(settings.time_limit) * 60)),
            "rayClusterSpec": {
                "rayVersion": settings.kube_ray_version,
                "authOptions": {"mode": "token"},
                "headGroupSpec": {**_group(settings, shape, head, "ray-head"), "serviceType": "ClusterIP"},
                "workerGroupSpecs": [
                    {
                        "groupName": group.name,
                        **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), group.size),
                        **_group(settings, shape, group, "ray-worker"),
                    }
                    for group in workers
                ],
            },
        },
    }


def metadata(settings: RunLaunchSettings, name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "paddock", "app.kubernetes.io/instance": settings.exp_name}
    space = {"namespace": settings.kube_namespace} if settings.kube_namespace else {}
    return {"name": name, **space, "labels": labels}


def _group(settings: RunLaunchSettings, shape: KubeShape, group: NodeGroup, container: str) -> dict[str, Any]:
    params = {"object-store-memory": str(settings.ray_object_store_mib << 20)}
    labels = {"labels": group.labels} if group.labels else {}
    return {"rayStartParams": params, **labels, "template": {"spec": _pod(settings, shape, container)}}


def _pod(settings: RunLaunchSettings, shape: KubeShape, container: str) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": FILES_VOLUME, "mountPath": str(shape.folder)}]
    volumes: list[dict[str, Any]] = [
        {"name": FILES_VOLUME, "persistentVolumeClaim": {"claimName": settings.kube_claim}}
    ]
    if settings.sandbox_nodes:
        mounts.append({"name": TOKEN_VOLUME, "mountPath": str(TOKEN_FILE.parent), "readOnly": True})
        # The image may run as another user than root.
        volumes.append(token_volume(settings, mode=0o444))
    return {
        "containers": [
            {
                "name": container,
                "image": settings.container,
                "workingDir": str(shape.folder),
                "env": [
                    {"name": name, "valueFrom": {"secretKeyRef": {"name": settings.kube_secret, "key": name}}}
                    for name in shape.names
                ],
                "resources": {key: dict(_resources(settings, shape.gpus)) for key in ("limits", "requests")},
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


def _resources(settings: RunLaunchSettings, gpus: int) -> Iterator[tuple[str, str]]:
    if settings.cpus_per_task:
        yield "cpu", str(settings.cpus_per_task)
    if (match := _MEMORY.fullmatch(settings.memory)) and match[1] != "0":
        # SLURM's units are powers of 1024, and none is MiB.
        yield "memory", f"{match[1]}{match[2] or 'M'}i"
    if gpus:
        yield GPU, str(gpus)
