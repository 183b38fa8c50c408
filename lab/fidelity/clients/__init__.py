"""Models of clients: how real programs send history back, each a class that says what was measured.

Law     `client:NAME` is no run of the program; a program runs as a harness plugin.
"""

from paddock.lab.fidelity.clients.base import CallResult, ClientCall, ClientSubject, SimulatedClient
from paddock.lab.fidelity.clients.claude_code import ClaudeCode
from paddock.lab.fidelity.clients.codex import CodexCli
from paddock.lab.fidelity.clients.dialects import ChatClient, MessagesClient, ResponsesClient
from paddock.lab.fidelity.clients.mini_swe_agent import MiniSweAgent
from paddock.lab.fidelity.clients.opencode import OpencodeChat, OpencodeMessages, OpencodeResponses
from paddock.lab.fidelity.clients.openhands import OpenhandsChat, OpenhandsResponses
from paddock.lab.fidelity.clients.pi import PiChat, PiResponses
from paddock.lab.fidelity.clients.qwen_code import QwenCode

CLIENTS: tuple[type[SimulatedClient], ...] = (
    CodexCli,
    OpencodeChat,
    OpencodeResponses,
    OpencodeMessages,
    OpenhandsChat,
    OpenhandsResponses,
    ClaudeCode,
    MiniSweAgent,
    PiResponses,
    PiChat,
    QwenCode,
)

__all__ = [
    "CLIENTS",
    "CallResult",
    "ChatClient",
    "ClientCall",
    "ClientSubject",
    "MessagesClient",
    "ResponsesClient",
    "SimulatedClient",
]
