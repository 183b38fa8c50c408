"""The servers that the published swe-rl recipe asks for containers, over sandboxes: its wire, our providers."""

from paddock.sandbox_server.swe_rl.evaluation import RowVerdict
from paddock.sandbox_server.swe_rl.serve import serve_swe_rl
from paddock.sandbox_server.swe_rl.settings import SweRlSettings

__all__ = ["RowVerdict", "SweRlSettings", "serve_swe_rl"]
