"""Predictions as SWE-bench's harness takes them: `instance_id`, `model_name_or_path`, `model_patch`.

Source  JSONL; or JSON: a list of them, or an object of them by instance id, which may leave the id out.
Keys    `model_patch` is a git patch, or null; without `model_name_or_path` a prediction is of the file's own name.
        Others are not read.
Errors  ConfigError names the prediction and the key; so it does for two of one model and one instance.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import ConfigError


class Prediction(NamedTuple):
    """One model's patch for one instance."""

    instance_id: str
    model: str
    patch: str
    """Empty: the model gave none."""


def read_predictions(path: Path) -> list[Prediction]:
    """Read the predictions of a file, in its order."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", kind="predictions_unreadable") from None
    places: dict[tuple[str, str], str] = {}
    predictions = []
    for where, given in _entries(path, text):
        new = _prediction(where, given, path.stem)
        first = places.setdefault((new.model, new.instance_id), where)
        if first != where:
            detail = f"{first} is a prediction of {new.model} for {new.instance_id} too: give each a file of its own"
            raise ConfigError(f"{where}: {detail}", kind="prediction_twice")
        predictions.append(new)
    if not predictions:
        raise ConfigError(f"{path}: holds no prediction", kind="no_predictions")
    return predictions


def _entries(path: Path, text: bytes) -> Iterator[tuple[str, Any]]:
    """Yield where each prediction stands, and what stands there."""
    try:
        whole = json.loads(text)
    except ValueError:
        yield from _lines(path, text)
        return
    if isinstance(whole, list):
        yield from ((f"{path}: prediction {number}", entry) for number, entry in enumerate(whole, start=1))
    elif isinstance(whole, dict) and "instance_id" not in whole:
        for name, entry in whole.items():
            yield f"{path}: {name}", {"instance_id": name, **entry} if isinstance(entry, dict) else entry
    else:
        yield f"{path}:1", whole


def _lines(path: Path, text: bytes) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON: {error}", kind="prediction_invalid") from None


def _prediction(where: str, given: Any, model: str) -> Prediction:
    def wrong(problem: str) -> ConfigError:
        return ConfigError(f"{where}: {problem}", kind="prediction_invalid")

    if not isinstance(given, dict):
        raise wrong(f"needs an object, got {type(given).__name__}")
    name = given.get("instance_id")
    if not isinstance(name, str) or not name:
        raise wrong("instance_id: needs a non-empty string")
    if "model_patch" not in given:
        raise wrong("model_patch: missing; needs a git patch, or null for none")
    patch = given["model_patch"]
    if patch is not None and not isinstance(patch, str):
        raise wrong(f"model_patch: needs a string or null, got {type(patch).__name__}")
    name_of_model = given.get("model_name_or_path")
    if name_of_model is not None and (not isinstance(name_of_model, str) or not name_of_model):
        raise wrong("model_name_or_path: needs a non-empty string")
    return Prediction(name, name_of_model or model, patch or "")
