"""Control groups: a sandbox's hard memory and process limits, where this machine lets us have them.

Paths   `<controller>/paddock/<owner id>/<sandbox id>`: what a dead owner left is found by its id and removed.
v1      one folder per controller below each controller's own mount; only root may make them.
v2      one folder, below the highest cgroup that we may write and whose children can have `memory` and `pids`: the root
        for root, else a delegated subtree (a systemd user's own).
Tested  v1 on a real kernel; v2 only on a scripted tree with the files and refusals that the kernel's documentation
        states.
Errors  OSError from a read: the group is gone. SandboxError from `make`: the kernel refused.
"""

from paddock.sandbox.cgroups.discovery import find_cgroups
from paddock.sandbox.cgroups.group import Cgroup
from paddock.sandbox.cgroups.kernel import CgroupKernel
from paddock.sandbox.cgroups.trees import Cgroups

__all__ = ["Cgroup", "CgroupKernel", "Cgroups", "find_cgroups"]
