"""A SLURM of several nodes for tests: a slurmd on each of some machines of their own, slurmctld on the first.

Nodes   have names of their own, `t<process>-1`, ..., which all machines can look up: control groups have a node's name,
        and there may be another SLURM beside this one.
Files   what nodes share is `SlurmNodes.folder`; a machine's `/tmp` is its own.
Ends    with the machines, whatever runs on them.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.training.launch.one_node import FREEZER, START_S, Cluster, await_that, find_program

from paddock.testing.machines import Machine, machines

NODE_TIMEOUT_S = 10
"""Seconds after which SLURM gives up a node that says nothing."""
CONF = """ClusterName=paddock
SlurmctldHost={host}({address})
SlurmUser=root
SlurmdUser=root
SlurmctldPort=6817
SlurmdPort=6818
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType={proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout={timeout_s}
SlurmdParameters=config_overrides
KillWait={kill_wait_s}
MinJobAge=300
InactiveLimit=0
JobRequeue=1
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


class SlurmNodes(NamedTuple):
    """A SLURM that runs, and its machines."""

    cluster: Cluster
    folder: Path
    """A folder that all nodes see."""
    nodes: dict[str, Machine]
    """By the name that SLURM has for them."""


@contextmanager
def many_nodes(count: int, *, kill_wait_s: int = 30) -> Iterator[SlurmNodes]:
    """`kill_wait_s`: between SIGTERM and SIGKILL of a job that is cancelled."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with machines(count) as made:
            nodes = {f"t{os.getpid()}-{number}": machine for number, machine in enumerate(made, 1)}
            cluster = Cluster(folder, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
            _write(folder, nodes, kill_wait_s)
            try:
                _start(cluster, nodes)
                (folder / "shared").mkdir()
                yield SlurmNodes(cluster, folder / "shared", nodes)
            finally:
                _remove_groups(nodes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def processes_of(machine: Machine, words: str) -> list[str]:
    """The command lines there that have these words."""
    return [line for line in machine.run(["ps", "-ww", "-eo", "args"]).splitlines() if words in line]


def _write(folder: Path, nodes: dict[str, Machine], kill_wait_s: int) -> None:
    first = next(iter(nodes.values()))
    lines = [
        f"NodeName={name} NodeHostname={machine.name} NodeAddr={machine.address} CPUs=2 RealMemory=2000 State=UNKNOWN"
        for name, machine in nodes.items()
    ]
    text = CONF.format(
        folder=folder,
        host=first.name,
        address=first.address,
        proctrack="proctrack/cgroup" if FREEZER.is_dir() else "proctrack/linuxproc",
        timeout_s=NODE_TIMEOUT_S,
        kill_wait_s=kill_wait_s,
        nodes="\n".join(lines),
        names=",".join(nodes),
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n" if FREEZER.is_dir() else "")
    (folder / "ctld").mkdir()
    names = "".join(f"{machine.address} {name}\n" for name, machine in nodes.items())
    for name, machine in nodes.items():
        (folder / f"spool-{name}").mkdir()
        with (machine.disk / "hosts").open("a") as file:
            file.write(names)


def _start(cluster: Cluster, nodes: dict[str, Machine]) -> None:
    for nth, (name, machine) in enumerate(nodes.items()):
        daemons = [["slurmctld", "-D"]] if nth == 0 else []
        for program, *options in [*daemons, ["slurmd", "-D", "-N", name]]:
            with (cluster.folder / f"{program}-{name}.log").open("wb") as log:
                machine.start([find_program(program) or program, *options], env=cluster.environ, stdout=log, stderr=log)
    asked = ["sinfo", "--noheader", "--Node", "--format=%T"]
    await_that(lambda: cluster.tell(*asked).split() == ["idle"] * len(nodes), "all nodes are idle", START_S)


def _remove_groups(nodes: dict[str, Machine]) -> None:
    """What a slurmd leaves of control groups."""
    for machine in nodes.values():
        machine.kill()
    time.sleep(0.1)
    for name in nodes:
        for group in sorted(FREEZER.glob(f"slurm_{name}/**/"), key=lambda one: -len(one.parts)):
            with suppress(OSError):
                group.rmdir()
