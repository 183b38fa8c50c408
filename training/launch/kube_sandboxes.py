"""The nodes of sandboxes on Kubernetes: a DaemonSet on the nodes of a selector, and a Service that names them.

Address the network of the node itself, so that a daemon that starts again is found where it was. The Service has no
        address of its own: its name stands for all nodes that are ready.
Rights  `privileged`, as root: sandboxes are made by mounting overlays, by namespaces, and by control groups in a
        writable `/sys/fs/cgroup`. What runs in a sandbox has none of these. Images and state are on the node's own
        disk: an overlay can't stand on the container's.
Token   a file from the user's Secret, of its own.
"""

from pathlib import Path
from typing import Any

from paddock.training.launch.settings import RunLaunchSettings

TOKEN_VOLUME = "sandbox-token"
TOKEN_KEY = "SANDBOX_TOKEN"
"""In the Secret."""
TOKEN_FILE = Path("/var/run/paddock/sandbox-token/token")
HOME = "/var/lib/paddock"
STOP_S = 30


def service_name(settings: RunLaunchSettings) -> str:
    return f"{settings.exp_name}-sandboxes"


def token_volume(settings: RunLaunchSettings, *, mode: int) -> dict[str, Any]:
    items = [{"key": TOKEN_KEY, "path": TOKEN_FILE.name}]
    return {
        "name": TOKEN_VOLUME,
        "secret": {"secretName": settings.kube_secret, "items": items, "defaultMode": mode},
    }


def sandbox_objects(settings: RunLaunchSettings, metadata: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The manifests. `metadata`: of both; `folder`: the working directory, where `sandbox_settings` may lie."""
    selector = {"app.kubernetes.io/component": "sandboxes", **metadata["labels"]}
    own = {**metadata, "labels": selector}
    service = {
        "clusterIP": "None",
        "selector": selector,
        "ports": [{"name": "http", "port": settings.sandbox_port, "protocol": "TCP"}],
    }
    template = {"metadata": {"labels": selector}, "spec": _pod(settings, folder)}
    daemons = {"selector": {"matchLabels": selector}, "template": template}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": own, "spec": service},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": own, "spec": daemons},
    ]


def _pod(settings: RunLaunchSettings, folder: Path) -> dict[str, Any]:
    command = [settings.sandbox_python or "python3", "-m", "paddock", "sandbox", "serve"]
    command += ["--host=0.0.0.0", f"--port={settings.sandbox_port}", f"--token-file={TOKEN_FILE}"]
    command += [f"--settings={folder / settings.sandbox_settings}"] if settings.sandbox_settings else []
    mounts: list[dict[str, Any]] = [
        {"name": "home", "mountPath": HOME},
        {"name": TOKEN_VOLUME, "mountPath": str(TOKEN_FILE.parent), "readOnly": True},
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "home", "hostPath": {"path": HOME, "type": "DirectoryOrCreate"}},
        token_volume(settings, mode=0o400),
    ]
    if settings.sandbox_settings:
        mounts.append({"name": "files", "mountPath": str(folder), "readOnly": True})
        volumes.append({"name": "files", "persistentVolumeClaim": {"claimName": settings.kube_claim}})
    container = {
        "name": "sandboxes",
        "image": settings.kube_sandbox_image or settings.container,
        "command": command,
        "env": [{"name": "PADDOCK_HOME", "value": HOME}],
        "ports": [{"name": "http", "containerPort": settings.sandbox_port, "hostPort": settings.sandbox_port}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": settings.sandbox_port}, "periodSeconds": 5},
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": mounts,
    }
    return {
        "nodeSelector": dict(pair.split("=", 1) for pair in settings.kube_sandbox_selector),
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "terminationGracePeriodSeconds": STOP_S,
        "containers": [container],
        "volumes": volumes,
    }
