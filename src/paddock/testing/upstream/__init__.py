"""An OpenAI-compatible server that replies and fails on cue, on a real loopback port: for tests, demos, benchmarks.

    async with ScriptedUpstream(Said("hello"), faults=first(2, Status(500))) as upstream:
        ... upstream.url, upstream.calls, upstream.bodies

It shares no code with the servers that it stands in for, so that it can show their mistakes.
"""

from paddock.testing.upstream.faults import Fault, Faults, Status, first, share
from paddock.testing.upstream.said import Said
from paddock.testing.upstream.server import ScriptedUpstream

__all__ = ["Fault", "Faults", "Said", "ScriptedUpstream", "Status", "first", "share"]
