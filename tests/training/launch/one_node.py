"""A SLURM of one node for tests: munged, slurmctld and slurmd of Debian, in a folder, on ports of loopback.

Needs   root and Debian's slurm-wlm. Clients find it by SLURM_CONF.
Ends    jobs are cancelled, then the daemons are told to end and awaited. They are ended as well when the process that
        started them dies, and after `DEADLINE_S` whatever happens.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from paddock.ports import free_ports

DEADLINE_S = 7200
START_S = 60.0
STOP_S = 60.0
_SBIN = "/usr/sbin"
FREEZER = Path("/sys/fs/cgroup/freezer")

CONF = """ClusterName=paddock
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/slurmd
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.pid
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
SlurmdTimeout=30
KillWait={kill_wait_s}
MinJobAge=300
InactiveLimit=0
JobRequeue=1
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={slurmd_port} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """What this machine lacks; None: nothing."""
    if os.geteuid():
        return "SLURM's daemons are started by root alone"
    lacking = [name for name in ("sbatch", "munged", "slurmctld", "slurmd") if not find_program(name)]
    return f"no {', '.join(lacking)} here: apt-get install slurm-wlm" if lacking else None


def find_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:{_SBIN}")


class Cluster(NamedTuple):
    """A SLURM that runs."""

    folder: Path
    environ: dict[str, str]
    """Of its clients."""

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stderr}\n{self.logs()}"
        return done.stdout.strip()

    def tell(self, *words: str) -> str:
        """What a client prints, whether it succeeds or not."""
        return subprocess.run(words, env=self.environ, capture_output=True, text=True, timeout=120).stdout.strip()

    def state(self, job: str) -> str:
        """`RUNNING`, `COMPLETED`, ..."""
        words = self.ask("scontrol", "--oneliner", "show", "job", job).split()
        return next(word.removeprefix("JobState=") for word in words if word.startswith("JobState="))

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in self.folder.glob("*.log"))


def await_that(claim: Callable[[], bool], what: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < deadline, f"not in {within_s:.0f} s: {what}"
        time.sleep(0.1)


@contextmanager
def one_node(*, kill_wait_s: int = 30) -> Iterator[Cluster]:
    """`kill_wait_s`: between SIGTERM and SIGKILL of a job that is cancelled."""
    # Short: names of sockets have to be.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/var/tmp"))
    folder.chmod(0o755)
    cluster = Cluster(folder, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(_remove_groups, folder)
        _write(folder, kill_wait_s)
        stack.enter_context(_daemon(cluster, _munged(folder)))
        await_that((folder / "munge.socket").exists, "munged answers", START_S)
        conf = str(folder / "slurm.conf")
        stack.enter_context(_daemon(cluster, ["slurmctld", "-D", "-f", conf]))
        stack.enter_context(_daemon(cluster, ["slurmd", "-D", "-f", conf, "-N", _node(folder)]))
        await_that(lambda: _is_idle(cluster), f"the node is idle\n{cluster.logs()}", START_S)
        try:
            yield cluster
        finally:
            _end_jobs(cluster)


def _node(folder: Path) -> str:
    """Its own: control groups have the node's name, and there may be another SLURM beside this one."""
    return folder.name.replace("_", "-")


def _remove_groups(folder: Path) -> None:
    """What slurmd leaves of them."""
    for group in sorted(FREEZER.glob(f"slurm_{_node(folder)}/**/"), key=lambda one: -len(one.parts)):
        with suppress(OSError):
            group.rmdir()


def _write(folder: Path, kill_wait_s: int) -> None:
    for name in ("ctld", "slurmd", "munge"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    ports = free_ports(2)
    text = CONF.format(
        folder=folder,
        host=socket.gethostname().partition(".")[0],
        node=_node(folder),
        ctld_port=ports[0],
        slurmd_port=ports[1],
        proctrack="proctrack/cgroup" if FREEZER.is_dir() else "proctrack/linuxproc",
        kill_wait_s=kill_wait_s,
        cpus=os.cpu_count(),
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n" if FREEZER.is_dir() else "")


def _munged(folder: Path) -> list[str]:
    place = folder / "munge"
    words = ["munged", "--foreground", f"--socket={folder}/munge.socket", "--num-threads=1"]
    return [*words, *(f"--{name}-file={place}/{name}" for name in ("key", "pid", "log", "seed"))]


@contextmanager
def _daemon(cluster: Cluster, words: Sequence[str]) -> Iterator[None]:
    program = find_program(words[0])
    assert program, words
    guarded = ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after=10", str(DEADLINE_S), program, *words[1:]]
    with (cluster.folder / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(guarded, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=cluster.environ)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_idle(cluster: Cluster) -> bool:
    asked = ["sinfo", "--noheader", "--format=%T"]
    done = subprocess.run(asked, env=cluster.environ, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() == "idle"


def _end_jobs(cluster: Cluster) -> None:
    environ = cluster.environ
    subprocess.run(["scancel", "--state=PENDING", "--user=root"], env=environ, timeout=60, check=False)
    subprocess.run(["scancel", "--user=root"], env=environ, timeout=60, check=False)
    queue = ["squeue", "--noheader"]
    await_that(
        lambda: not subprocess.run(queue, env=environ, capture_output=True, timeout=60).stdout.strip(),
        "all jobs have ended",
        120,
    )
