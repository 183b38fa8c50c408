"""An OpenAI-compatible server that replies and fails on cue, on a real loopback port: for tests, demos, benchmarks.

    async with ScriptedUpstream(ScriptedAnswer("hello"), faults=first(2, ErrorStatus(500))) as upstream:
        ... upstream.url, upstream.calls, upstream.bodies

It shares no code with the servers that it stands in for, so that it can show their mistakes.
"""

from paddock.testing.upstream.answer import ScriptedAnswer
from paddock.testing.upstream.faults import ErrorStatus, Fault, Faults, first, share
from paddock.testing.upstream.relay import FaultyRelay
from paddock.testing.upstream.server import ScriptedUpstream

__all__ = ["ErrorStatus", "Fault", "Faults", "FaultyRelay", "ScriptedAnswer", "ScriptedUpstream", "first", "share"]
