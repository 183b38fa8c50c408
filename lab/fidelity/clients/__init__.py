"""Models of clients: how real programs send history back, each a class that says what was measured.

Law     `client:NAME` is no run of the program; a program runs as a harness plugin.
"""

from paddock.lab.fidelity.clients.base import Client, ClientSubject, Heard, Result
from paddock.lab.fidelity.clients.codex import CodexCli
from paddock.lab.fidelity.clients.opencode import OpencodeChat, OpencodeMessages, OpencodeResponses
from paddock.lab.fidelity.clients.openhands import OpenhandsChat, OpenhandsResponses
from paddock.lab.fidelity.clients.others import ClaudeCode, MiniSweAgent, PiChat, PiResponses, QwenCode
from paddock.lab.fidelity.clients.speaking import ChatClient, MessagesClient, ResponsesClient

CLIENTS: tuple[type[Client], ...] = (
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
    "ChatClient",
    "Client",
    "ClientSubject",
    "Heard",
    "MessagesClient",
    "ResponsesClient",
    "Result",
]
