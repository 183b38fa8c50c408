"""Tools for tests of servers: real code, scripted edges.

`over` runs built servers behind each transport; `paddock.testing.processes` runs commands as real processes;
`ScriptedUpstream` is a model endpoint that replies and fails on cue.
"""

from paddock.testing.transports import TRANSPORTS, Transport, over
from paddock.testing.upstream import Said, ScriptedUpstream, Status, first, share

__all__ = ["TRANSPORTS", "Said", "ScriptedUpstream", "Status", "Transport", "first", "over", "share"]
