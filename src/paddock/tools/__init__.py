"""Tools of coding harnesses: their names, their kinds, and the action that a call of one stands for, however spelled.

Source  the tools of OpenHands, Codex, OpenCode and their kin, as listed in `paddock.tools.names`.
Shapes  `normalise` turns a name and an arguments string into an `Action`, or `InvalidCall` when the tool would refuse
        it.
Errors  none is raised: a call is the policy's, so a wrong one gives an `InvalidCall`.
"""

from paddock.tools.actions import (
    Action,
    Ask,
    CommandLimits,
    Edit,
    Finish,
    InvalidCall,
    ListFolder,
    OtherCall,
    ReadFile,
    RefusalReason,
    Search,
    ShellCommand,
    Stdin,
    Think,
    UpdatePlan,
)
from paddock.tools.arguments import DEFAULTS, NEUTRAL, NEUTRAL_OF
from paddock.tools.commands import PlainCommand, plain_command
from paddock.tools.names import NAMES, SYNONYMS, Form, Kind, canonical, fold, form_of, kind_of, pascal, stand_ins
from paddock.tools.normalise import normalise, normalise_by_name
from paddock.tools.read_tools import READ_LIMIT_LINES
from paddock.tools.values import decode_json, decode_lenient, decode_object, has_visible_text, same_json

__all__ = [
    "DEFAULTS",
    "NAMES",
    "NEUTRAL",
    "NEUTRAL_OF",
    "READ_LIMIT_LINES",
    "SYNONYMS",
    "Action",
    "Ask",
    "CommandLimits",
    "Edit",
    "Finish",
    "Form",
    "InvalidCall",
    "Kind",
    "ListFolder",
    "OtherCall",
    "PlainCommand",
    "ReadFile",
    "RefusalReason",
    "Search",
    "ShellCommand",
    "Stdin",
    "Think",
    "UpdatePlan",
    "canonical",
    "decode_json",
    "decode_lenient",
    "decode_object",
    "fold",
    "form_of",
    "has_visible_text",
    "kind_of",
    "normalise",
    "normalise_by_name",
    "pascal",
    "plain_command",
    "same_json",
    "stand_ins",
]
