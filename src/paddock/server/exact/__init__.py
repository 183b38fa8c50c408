"""Exact model servers: ids in, ids and log-probs out, every prompt built from recorded ids and new text only.

`ExactServer` is the base; `TokenEngine`, `Parser` and `ParserFactory` are what a plugin gives it.
"""

from paddock.server.exact.engine import Chunk, Parser, ParserFactory, TokenEngine
from paddock.server.exact.server import Equipment, ExactConfig, ExactServer

__all__ = [
    "Chunk",
    "Equipment",
    "ExactConfig",
    "ExactServer",
    "Parser",
    "ParserFactory",
    "TokenEngine",
]
