"""The key `artifacts` of a response: files of a rollout's sandbox, for a verifier that judges by them.

Wire    `archive`, the gzipped tar as base64; `missing`, paths that were wanted and are not there; `left_out`, a number
        of special files; `too_large`, true where the archive would hold more than the session allows and so is empty.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

from paddock.types.records import JsonObject

ARTIFACTS = "artifacts"


class ArtifactFiles(NamedTuple):
    """What a response has under the key."""

    archive: bytes
    too_large: bool


def artifacts_to_wire(archive: bytes, missing: Sequence[str], *, left_out: int, too_large: bool) -> JsonObject:
    """Make the value of the key."""
    return {
        "archive": base64.b64encode(archive).decode(),
        "missing": list(missing),
        "left_out": left_out,
        "too_large": too_large,
    }


def artifacts_of(response: JsonObject) -> ArtifactFiles | None:
    """Read a response's artifacts; None: it has none. ValueError where the key holds something else."""
    wire = response.get(ARTIFACTS)
    if wire is None:
        return None
    if not isinstance(wire, dict) or not isinstance(wire.get("archive"), str):
        raise ValueError("needs an object with `archive`, a base64 text")
    try:
        return ArtifactFiles(base64.b64decode(wire["archive"], validate=True), wire.get("too_large") is True)
    except binascii.Error as error:
        raise ValueError(f"archive: no base64: {error}") from error
