"""Tools of coding harnesses: their names, their kinds, and what a call of one asks for, whatever it is spelled like.

Source  the tools of OpenHands, Codex, OpenCode and their kin, as listed in `paddock.tools.names`.
Shapes  `normalise` turns a name and an arguments string into an `Action`, or `Malformed` when the tool would refuse it.
Errors  none is raised: a call is the policy's, so what is wrong with it is a value.
"""

from paddock.tools.actions import (
    Action,
    Ask,
    Edit,
    Finish,
    Limits,
    List,
    Malformed,
    Other,
    Plan,
    Read,
    Refusal,
    Search,
    Shell,
    Stdin,
    Think,
)
from paddock.tools.arguments import DEFAULTS, NEUTRAL, NEUTRAL_OF
from paddock.tools.looking import READ_LIMIT_LINES
from paddock.tools.names import NAMES, SYNONYMS, Form, Kind, canonical, fold, form_of, kind_of, pascal, stand_ins
from paddock.tools.normalise import normalise, opaque
from paddock.tools.scripts import Plain, plain_command
from paddock.tools.values import decode_object, same_json, says_something

__all__ = [
    "DEFAULTS",
    "NAMES",
    "NEUTRAL",
    "NEUTRAL_OF",
    "READ_LIMIT_LINES",
    "SYNONYMS",
    "Action",
    "Ask",
    "Edit",
    "Finish",
    "Form",
    "Kind",
    "Limits",
    "List",
    "Malformed",
    "Other",
    "Plain",
    "Plan",
    "Read",
    "Refusal",
    "Search",
    "Shell",
    "Stdin",
    "Think",
    "canonical",
    "decode_object",
    "fold",
    "form_of",
    "kind_of",
    "normalise",
    "opaque",
    "pascal",
    "plain_command",
    "same_json",
    "says_something",
    "stand_ins",
]
