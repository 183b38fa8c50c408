"""The server that every framework writes first, to compare with: each prompt is the client's history, rendered and
tokenised anew. What was sampled before is taken from the client's words."""

from paddock.fidelity.bench import BenchServer
from paddock.server.recording import Asking


class NaiveServer(BenchServer):
    """Records what the engine was given, hung below the turns whose ids it happens to continue."""

    def _prompt(self, asking: Asking) -> list[int]:
        asking.matched = asking.matched._replace(turn=None)
        prompt = super()._prompt(asking)
        asking.placed = None  # by ids
        return prompt
