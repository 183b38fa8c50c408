"""What a sender of weights and a group of engines know of each other; torch is not imported."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch


class UpdateClient(Protocol):
    """The calls of vLLM around an update; each returns when vLLM has answered."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: dict[str, Any]) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...


class TransferTarget(NamedTuple):
    """One vLLM that is sent weights."""

    name: str
    client: UpdateClient
    n_workers: int


class TransferGroup(Protocol):
    """A connection with the workers of some engines."""

    def send(self, tensors: Iterable[tuple[str, "torch.Tensor"]], version: str | None) -> Mapping[str, BaseException]:
        """Send all tensors; returns when they are loaded, with what kept engines from it. `version` is their label;
        None: the label stays. BrokenGroupError."""
        ...

    def close(self) -> None: ...


class BrokenGroupError(Exception):
    """A group could not be made, or broke, and is closed; those that nobody blames can be sent to again."""

    def __init__(self, cause: BaseException, blamed: Mapping[str, BaseException], updated: frozenset[str]) -> None:
        """`blamed`: by name; nobody, where all have left the group alive. `updated`: who has the weights all the
        same."""
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause
        self.blamed = blamed
        self.updated = updated
