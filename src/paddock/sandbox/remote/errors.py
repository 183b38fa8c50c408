"""Errors of a provider as JSON, so that a client raises the class that the provider raised, with its message and kind.

Law     a class is rebuilt from the tables of this module, never from a name that a peer sends. What is in none of them
        is the node's own bug, and stays one.
Errors  an answer that is no error of a provider, such as a refused token's, is a SandboxError: it is the machine's.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args

from pydantic import ValidationError

from paddock.errors import BugError, ConfigError, InfraError, PaddockError
from paddock.sandbox.failures import (
    Budget,
    BudgetExceeded,
    ImageDamaged,
    ImageInvalid,
    ImageMissing,
    RuntimeMissing,
    SandboxError,
    SandboxGone,
    SandboxRequestError,
)
from paddock.sandbox.remote.room import NodeFullError, NodeRoom
from paddock.types import JsonObject

MACHINE = {cls.__name__: cls for cls in (SandboxError, SandboxGone, RuntimeMissing, ImageDamaged)}
OTHERS = {cls.__name__: cls for cls in (SandboxRequestError, ImageMissing, ImageInvalid, BugError, ConfigError)}
FILES: dict[str, type[OSError]] = {
    cls.__name__: cls
    for cls in (
        FileNotFoundError,
        IsADirectoryError,
        PermissionError,
        NotADirectoryError,
        FileExistsError,
        TimeoutError,
        ConnectionError,
        OSError,
    )
}
MAX_SHOWN = 300
"""Characters of an answer that is no error of a provider."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def error_to_wire(error: BaseException) -> JsonObject:
    """The error as JSON; one of an unknown class becomes a BugError that names it."""
    if isinstance(error, BudgetExceeded):
        return {"error": {"class": "BudgetExceeded", "budget": error.budget, "message": _text(error.message)}}
    if isinstance(error, NodeFullError):
        full = {"class": "NodeFullError", "message": error.message, "kind": error.kind}
        return {"error": {**full, "retryable": True, "room": error.room.model_dump(mode="json")}}
    if isinstance(error, PaddockError):
        return {"error": _owner_error(error)}
    if isinstance(error, OSError):
        return {"error": _file_error(error)}
    return {"error": _owner_error(BugError(f"{type(error).__name__}: {error}", kind=type(error).__name__))}


def error_from_wire(body: Any, where: str) -> Exception:
    """The error that a node answered with. `where`: says whose answer an unknown body was."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return SandboxError(f"{where}: answered {str(body)[:MAX_SHOWN]}", kind="node_unreadable")
    name, message = error.get("class"), str(error.get("message", ""))
    if name == "BudgetExceeded" and error.get("budget") in get_args(Budget):
        return BudgetExceeded(error["budget"], message)
    if name == "NodeFullError":
        with suppress(ValidationError):
            return NodeFullError(NodeRoom.model_validate(error.get("room")), f"{where}: {message}")
    if name in FILES:
        return _rebuild_file_error(FILES[name], error)
    if name in MACHINE or name in OTHERS:
        return _rebuild(name, message, error)
    kind = str(error.get("kind", "node_refused"))
    return SandboxError(f"{where}: {message}", kind=kind, retryable=bool(error.get("retryable", False)))


def status_of(error: BaseException) -> int:
    """The HTTP status that goes with an error."""
    if isinstance(error, PaddockError):
        return error.status
    if isinstance(error, FileNotFoundError):
        return 404
    return 409 if isinstance(error, OSError | BudgetExceeded) else 500


def _owner_error(error: PaddockError) -> JsonObject:
    table = {**MACHINE, **OTHERS}
    name = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in table), None)
    if name is None and isinstance(error, InfraError):
        name = "SandboxError"
    wire: JsonObject = {**error.failure().model_dump(), "message": _text(error.message), "class": name or "BugError"}
    if isinstance(error, InfraError):
        wire["doubtful"] = error.doubtful
    return wire


def _file_error(error: OSError) -> JsonObject:
    name = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in FILES)
    path = None if error.filename is None else _text(str(error.filename))
    words = [_text(str(word)) for word in error.args if isinstance(word, str)]
    message = _text(error.strerror) if error.strerror is not None else " ".join(words)
    return {"class": name, "errno": error.errno, "message": message, "path": path}


def _rebuild_file_error(cls: type[OSError], error: Mapping[str, Any]) -> OSError:
    number, message, path = error.get("errno"), str(error.get("message", "")), error.get("path")
    if not isinstance(number, int):
        return cls(message) if message else cls()
    words = (number, message) if path is None else (number, message, str(path))
    # OSError knows the class of a number; one that was raised with another number keeps its own.
    made = OSError(*words)
    return made if isinstance(made, cls) else cls(*words)


def _rebuild(name: str, message: str, error: Mapping[str, Any]) -> PaddockError:
    stage = error.get("stage")
    fields: dict[str, Any] = {
        "kind": str(error.get("kind", "error")),
        "stage": stage if isinstance(stage, str) else None,
        "retryable": bool(error.get("retryable", False)),
    }
    if name in OTHERS:
        return OTHERS[name](message, **fields)
    cls = MACHINE[name]
    made = cls.__new__(cls)  # SandboxGone makes its message from other words
    InfraError.__init__(made, message, **fields, doubtful=bool(error.get("doubtful", False)))
    return made


def _text(text: str) -> str:
    """The text with what UTF-8 can't hold as `\\udcNN`."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
