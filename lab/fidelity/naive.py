"""The server that every framework writes first, to compare with: each prompt is the client's history, rendered and
tokenised anew. What was sampled before is taken from the client's words."""

from paddock.lab.fidelity.bench import BenchServer
from paddock.server.recording_server import PendingCall


class NaiveServer(BenchServer):
    """Records what the engine was given, hung below the turns whose ids it happens to continue."""

    def _prompt(self, pending: PendingCall) -> list[int]:
        pending.match = pending.match._replace(turn=None)
        prompt = super()._prompt(pending)
        pending.placement = None  # by ids
        return prompt
