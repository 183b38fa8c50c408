"""Keys of a config block that have a new name: read under the old one for one version, with a warning.

Errors  a block that gives a key under both names does not validate.
"""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, model_validator

_log = logging.getLogger(__name__)


class RenamedKeys(BaseModel):
    """A block some of whose keys had other names in the version before."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {}
    """The name of a key, by its old one."""

    @model_validator(mode="before")
    @classmethod
    def _read_old_names(cls, block: Any) -> Any:
        if not isinstance(block, Mapping) or not (old_names := cls.OLD_NAMES.keys() & block.keys()):
            return block
        renamed = dict(block)
        for old in sorted(old_names):
            new = cls.OLD_NAMES[old]
            if new in renamed:
                raise ValueError(f"`{old}` is the old name of `{new}`, and both are given: remove `{old}`")
            _warn(old, new)
            renamed[new] = renamed.pop(old)
        return renamed


@cache
def _warn(old: str, new: str) -> None:
    """Log it once in a process: a block is validated several times on its way to a server."""
    _log.warning("`%s` is called `%s`: its old name will not be read in the next version", old, new)
