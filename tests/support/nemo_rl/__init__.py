"""NeMo-RL's chat server, scripted: every rule of the real one, over any engine of ids, on a real loopback port.

    async with NemoRlChat(engine, vocabulary, template, Sampling(1.0, 1.0)) as chat:
        ... chat.url, chat.seen, chat.refused

It shares no code with the model server that asks it, so that it can show its mistakes; templates and vocabularies are
the package's own.
"""

from tests.support.nemo_rl.rules import FailedError, Sampling
from tests.support.nemo_rl.server import Fault, NemoRlCall, NemoRlChat
from tests.support.nemo_rl.splice import Renderer

__all__ = ["FailedError", "Fault", "NemoRlCall", "NemoRlChat", "Renderer", "Sampling"]
