"""Where a model server keeps its turns, as its config says.

Law     without a folder of its own a server uses `<temporary folder>/paddock-<uid>/turns/<name>`, which has to be ours
        alone: it survives a restart of the server, and the store's bounds keep it small. Where its program was killed,
        the next one to start removes it (`paddock.temporary`), unless that serves the same name.
Units   seconds, MiB.
Errors  ConfigError `turn_store` when the folder can't be made or belongs to someone else.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import ConfigError
from paddock.temporary import hold, is_private, own_root, turns_root
from paddock.tokens.store import DAY_S, TurnStore
from paddock.types import Engine


class TurnStoreSettings(BaseModel):
    """The `turn_store` block of a model server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path | None = None
    """Folder of the turn files; None: one per server name in the system's temporary folder."""
    max_age_s: float = Field(default=DAY_S, gt=0)
    """Seconds after which an idle rollout's turns are deleted; longer than any rollout takes."""
    max_disk_mib: int = Field(default=16384, ge=1)
    """Disk space of all turns; beyond it the longest idle rollouts are dropped, and say so."""
    max_memory_mib: int = Field(default=512, ge=1)
    """Memory for recent turns, roughly."""

    def open(self, name: str, engine: Engine) -> TurnStore:
        """The store of the server `name`, its folder made."""
        folder = self.folder or _default_root() / name
        folder_hold = None
        try:
            if self.folder is None:
                folder_hold = hold(folder)
            else:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{name}: turn_store.folder {folder}: {error.strerror}", kind="turn_store") from error
        return TurnStore(
            folder,
            engine=engine,
            max_age_s=self.max_age_s,
            max_disk_bytes=self.max_disk_mib << 20,
            max_memory_bytes=self.max_memory_mib << 20,
            hold=folder_hold,
        )


def _default_root() -> Path:
    own, root = own_root(), turns_root()
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        private = is_private(own)
        root.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"turn_store: {own}: {error.strerror}; set turn_store.folder", kind="turn_store") from error
    if not private:
        raise ConfigError(
            f"turn_store: {own} is not a private folder of this user; set turn_store.folder", kind="turn_store"
        )
    return root
