"""Child processes: started, watched, and gone with all that they started.

`Child` is a process of ours whose end is a future. `start_supervised` puts the supervisor (`supervisor.py`, a program
of its own) over a command, so that nothing of it is left however we end. `run` and `run_supervised` run a command to
its end; `reap` waits for one of asyncio's that was killed. `restart_wait_s` says how long to wait before one is started
again.
"""

from paddock.processes.child import Child, exit_in_words
from paddock.processes.command import CommandResult, run, run_supervised
from paddock.processes.reap import reap
from paddock.processes.restarts import restart_wait_s
from paddock.processes.supervised import LinkedProcess, Supervised, start_supervised, supervised_argv

__all__ = [
    "Child",
    "CommandResult",
    "LinkedProcess",
    "Supervised",
    "exit_in_words",
    "reap",
    "restart_wait_s",
    "run",
    "run_supervised",
    "start_supervised",
    "supervised_argv",
]
