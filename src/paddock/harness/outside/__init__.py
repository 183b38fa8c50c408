"""Harnesses that are programs on this machine: they run outside, and all that they do happens in the sandbox.

Law     the program gets a process, a folder and an environment of its own, with nothing of ours in them. Its tools ask
        over a private channel, and the workspace does what they ask: its rules, limits and canaries hold.
Parts   `harness.py`: the base class. `bridge.py`: the program's end of the channel, which runs its driver under its own
        interpreter. `bridge_server.py`: our end. `process.py`: the process, from its start until nothing of it is left.
"""

from paddock.harness.outside.harness import DriverStart, OutsideHarness, OutsideSettings

__all__ = ["DriverStart", "OutsideHarness", "OutsideSettings"]
