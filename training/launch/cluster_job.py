"""The script of a SLURM job of the built-in loop: one node, or several with Ray, and nodes of sandboxes besides.

Steps   one for each role, each with a task on each of its nodes: `paddock sandbox serve` on the second component of a
        heterogeneous job; Ray's workers; Ray's head on the first node, under which the run is (`ray_node`). The run's
        end is the job's: SLURM ends with the script what is left of other steps.
Tokens  Ray and the nodes of sandboxes have one each, made by the job, in files of mode 0600 in the launch's folder,
        which all nodes see. They stand on no command line, in no environment and no log, and are removed with the job.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.training.launch.built_in import interpreter, train_command
from paddock.training.launch.settings import RunLaunchSettings
from paddock.training.launch.shell import slurm_job_lines
from paddock.training.launch.slurm import srun_words

MODULES = "paddock.training.launch"
_TOKENS = """rm -rf "$tokens"
mkdir -m 700 "$tokens"
trap 'rm -rf "$tokens"' EXIT
new_token() { (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' >"$tokens/$1"); }"""


class JobShape(NamedTuple):
    """Where a job runs, and on what."""

    folder: Path
    """The working directory."""
    launch: Path
    """Scripts and logs of this launch."""
    nodes: int
    gpus: int
    """Of each node."""
    agents: Sequence[str]
    """Keys of the blocks of agents with sandboxes."""


def script_lines(settings: RunLaunchSettings, extra_overrides: Sequence[str], shape: JobShape) -> list[str]:
    """The script's lines after its exports."""
    several = shape.nodes > 1
    overrides = [*extra_overrides, *(cluster_overrides(shape.nodes) if several else [])]
    before = _token_lines(shape.launch) if several or settings.sandbox_nodes else []
    train = [shlex.join(train_command(settings, overrides))]
    if settings.sandbox_nodes:
        before += _sandbox_lines(settings)
        train += sandbox_overrides(shape.agents)
    if not several:
        return slurm_job_lines(before, " ".join([shlex.join(srun_words(settings, [], shape.folder)), *train]))
    head = _ray_step(settings, shape, first=0, nodes=1)
    return slurm_job_lines([*before, *_ray_lines(settings, shape)], " ".join([head, "--", *train]))


def cluster_overrides(nodes: int) -> list[str]:
    """The overrides by which a run uses the job's Ray: it is found by RAY_ADDRESS."""
    return [f"cluster.num_nodes={nodes}", "cluster.address=auto"]


def sandbox_overrides(agents: Sequence[str]) -> list[str]:
    """The overrides by which agents use the nodes of `$sandbox_urls`, quoted for a script."""
    values = {"nodes": '"$sandbox_urls"', "node_token_file": '"$tokens/sandbox"'}
    return [f"{shlex.quote(f'{agent}.sandbox.{key}=')}{value}" for agent in agents for key, value in values.items()]


def _token_lines(launch: Path) -> list[str]:
    return [f'tokens={shlex.quote(str(launch))}/"tokens-$SLURM_JOB_ID"', *_TOKENS.split("\n")]


def _sandbox_lines(settings: RunLaunchSettings) -> list[str]:
    """Start the nodes of sandboxes, and set `sandbox_urls` when all of them answer."""
    python, count = settings.sandbox_python or sys.executable, settings.sandbox_nodes
    step = ["srun", "--het-group=1", f"--nodes={count}", f"--ntasks={count}", "--export=ALL", "--cpu-bind=none"]
    serve = [python, "-m", "paddock", "sandbox", "serve", "--host=0.0.0.0", f"--port={settings.sandbox_port}"]
    serve += ["--settings", settings.sandbox_settings] if settings.sandbox_settings else []
    urls = [python, "-m", f"{MODULES}.sandbox_urls", f"--port={settings.sandbox_port}"]
    urls += [f"--wait-s={settings.sandbox_wait_s:g}"]
    return [
        "new_token sandbox",
        f'{shlex.join([*step, *serve])} --token-file "$tokens/sandbox" &',
        f"sandbox_hosts={_hosts('SLURM_JOB_NODELIST_HET_GROUP_1')}",
        f'sandbox_urls=$({shlex.join(urls)} --pid "$!" --hosts "$sandbox_hosts")',
    ]


def _ray_lines(settings: RunLaunchSettings, shape: JobShape) -> list[str]:
    """Start Ray's workers, on all nodes but the first."""
    return [
        "new_token ray",
        'export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$tokens/ray"',
        f"hosts={_hosts('SLURM_JOB_NODELIST')}",
        f"{_ray_step(settings, shape, first=1, nodes=shape.nodes - 1)} &",
    ]


def _ray_step(settings: RunLaunchSettings, shape: JobShape, *, first: int, nodes: int) -> str:
    command = [interpreter(settings), "-m", f"{MODULES}.ray_node", f"--port={settings.ray_port}"]
    command += [f"--wait-s={settings.ray_wait_s:g}", f"--object-store-mib={settings.ray_object_store_mib}"]
    command += [f"--gpus={shape.gpus}"] if shape.gpus else []
    srun, *rest = srun_words(settings, command, shape.folder, nodes=nodes)
    return shlex.join([srun, f"--relative={first}", *rest]) + ' --hosts "$hosts"'


def _hosts(variable: str) -> str:
    return f'$(scontrol show hostnames "${variable}" | paste -sd,)'
