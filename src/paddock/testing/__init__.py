"""Tools for tests of servers: real code, scripted edges.

`over` runs built servers behind each transport; `paddock.testing.processes` runs commands as real processes.
"""

from paddock.testing.transports import TRANSPORTS, Transport, over

__all__ = ["TRANSPORTS", "Transport", "over"]
