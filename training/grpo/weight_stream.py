"""The weights of all ranks as a stream on rank 0: gathered while they are sent, so that they are never whole in memory.

Law     gathering is a collective: each pass over the weights is made by all ranks, to its end, however early rank 0
        loses interest. Rank 0 tells the others how many passes there are: a sending that broke is made again. Where
        gathering itself fails on rank 0 the others wait in it, and are told nothing: that would be another collective.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

AGAIN, DONE = "again", "done"
Tensors = Iterable[tuple[str, "torch.Tensor"]]


class WeightStream:
    """The passes over the weights of one sending, as one rank sees them."""

    def __init__(self, make_pass: Callable[[], Tensors], share: Callable[[Any], list[Any]]) -> None:
        """`share`: gives the values of all ranks, in their order; every rank has to call it."""
        self._make_pass = make_pass
        self._share = share
        self._pass: Iterator[tuple[str, torch.Tensor]] = iter(())
        """The one that rank 0 has made last, maybe not to its end."""
        self._broken = False
        """Gathering has failed on this rank."""

    @contextmanager
    def leading(self) -> Iterator[Callable[[], Tensors]]:
        """On rank 0: within, the stream may be asked for as often as it is needed, and each time left before its
        end."""
        try:
            yield self._lead
        finally:
            self._end_pass()
            if not self._broken:
                self._share(DONE)

    def follow(self) -> None:
        """On the other ranks: take part until rank 0 needs no more."""
        while self._share(None)[0] == AGAIN:
            for _ in self._make_pass():
                pass

    def _lead(self) -> Tensors:
        self._end_pass()
        self._share(AGAIN)
        self._pass = self._gather()
        return islice(self._pass, None)  # whoever closes it does not close the pass

    def _gather(self) -> Iterator[tuple[str, "torch.Tensor"]]:
        try:
            yield from self._make_pass()
        except Exception:
            self._broken = True
            raise

    def _end_pass(self) -> None:
        for _ in self._pass:
            pass
