"""What a launch writes for Kubernetes: manifests of the job and of its nodes of sandboxes, and the job's script."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from paddock.errors import ConfigError
from paddock.training.launch.built_in import train_command
from paddock.training.launch.cluster_job import MODULES, cluster_overrides
from paddock.training.launch.kube_groups import node_groups
from paddock.training.launch.kube_sandboxes import TOKEN_FILE, sandbox_objects, service_name
from paddock.training.launch.kuberay import KubeShape, metadata, ray_job
from paddock.training.launch.settings import RunLaunchSettings, variables_of
from paddock.training.launch.shell import BashScript, LaunchStep, exec_lines


class KubeInputs(NamedTuple):
    """What is written besides the settings' own."""

    folder: Path
    """The working directory."""
    launch: Path
    """The folder of what is written."""
    overrides: Sequence[str]
    nodes: int
    gpus: int
    """Of each node."""
    labels: Mapping[str, int]
    """Labels of nodes, with the GPUs of their roles."""
    agents: Sequence[str]
    """Keys of the blocks of agents with sandboxes."""
    names: Sequence[str]
    """Variables of the Secret."""


class KubePlan(NamedTuple):
    files: dict[Path, str]
    submit: list[LaunchStep]
    """The commands that submit them, which are the user's to run."""


def kube_plan(settings: RunLaunchSettings, inputs: KubeInputs, title: str) -> KubePlan:
    """The files and the commands. ConfigError for a launch that can't be."""
    if inputs.names and not settings.kube_secret:
        raise ConfigError(
            f"`kube_secret` of a profile is required: the config reads {', '.join(inputs.names)}", kind="env"
        )
    entry, job, sandboxes = (inputs.launch / name for name in ("entry.sh", "job.yaml", "sandboxes.yaml"))
    groups = node_groups(inputs.labels, inputs.nodes, inputs.gpus)
    manifest = ray_job(settings, KubeShape(inputs.folder, entry, groups, inputs.gpus, inputs.names))
    files = {entry: _entry(settings, inputs).text(title), job: _text([manifest], title)}
    submit = [LaunchStep(["kubectl", "create", "-f", str(job)])]
    if settings.sandbox_nodes:
        objects = sandbox_objects(settings, metadata(settings, service_name(settings)), inputs.folder)
        files[sandboxes] = _text(objects, title)
        submit.insert(0, LaunchStep(["kubectl", "apply", "-f", str(sandboxes)]))
    return KubePlan(files, submit)


def _text(objects: Sequence[object], title: str) -> str:
    return f"# {title}\n{yaml.dump_all(objects, Dumper=_PlainDumper, sort_keys=False)}"


class _PlainDumper(yaml.SafeDumper):
    """Writes what stands twice twice: no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _entry(settings: RunLaunchSettings, inputs: KubeInputs) -> BashScript:
    """What the job runs on the head."""
    exports = {"PYTHONUNBUFFERED": "1", **variables_of(settings)}
    overrides = [*inputs.overrides, *cluster_overrides(inputs.nodes)]
    command = train_command(settings, overrides)
    if not settings.sandbox_nodes:
        return BashScript(inputs.folder, exports, exec_lines(command))
    urls = [command[0], "-m", f"{MODULES}.sandbox_urls", f"--service={service_name(settings)}"]
    urls += [f"--count={settings.sandbox_nodes}", f"--port={settings.sandbox_port}"]
    urls += [f"--wait-s={settings.sandbox_wait_s:g}"]
    words = [shlex.join(command)]
    for agent in inputs.agents:
        words.append(f'{shlex.quote(f"{agent}.sandbox.nodes=")}"$sandbox_urls"')
        words.append(shlex.quote(f"{agent}.sandbox.node_token_file={TOKEN_FILE}"))
    return BashScript(inputs.folder, exports, [f"sandbox_urls=$({shlex.join(urls)})", f"exec {' '.join(words)}"])
