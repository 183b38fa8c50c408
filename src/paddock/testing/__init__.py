"""Tools for tests of plugins: real code, scripted edges.

`over` runs built servers behind each transport; `ScriptedUpstream` is a model endpoint that replies and fails on cue;
`engines`, `judges` and `sandboxes` are scripted engines, judges and sandboxes.
"""

from paddock.testing.transports import TRANSPORTS, Transport, over
from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream, first, share

__all__ = ["TRANSPORTS", "ErrorStatus", "ScriptedAnswer", "ScriptedUpstream", "Transport", "first", "over", "share"]
