"""`Arrays` of the loss, over torch.

Shapes  flat tensors and scalars; rows are integer tensors. See `paddock.training.core.arrays`.
"""

from typing import cast

import torch


class TorchArrays:
    """The operations of `Arrays` on tensors; it has no state."""

    def exp(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    def absolute(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs()

    def clamp(self, x: torch.Tensor, low: float | None, high: float | None) -> torch.Tensor:
        return x if low is None and high is None else x.clamp(low, high)

    def maximum(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x, y)

    def minimum(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.minimum(x, y)

    def where(self, condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(condition != 0, x, y)

    def within(self, x: torch.Tensor, low: float | None, high: float | None) -> torch.Tensor:
        x = x.detach()
        inside = ~x.isnan()
        if low is not None:
            inside &= x >= low
        if high is not None:
            inside &= x <= high
        return inside.to(x.dtype)

    def finite(self, x: torch.Tensor) -> torch.Tensor:
        return x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

    def detach(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach()

    def full(self, like: torch.Tensor, value: float) -> torch.Tensor:
        return torch.full_like(like, value)

    def total(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()

    def row_totals(self, x: torch.Tensor, rows: torch.Tensor, n_rows: int) -> torch.Tensor:
        return x.new_zeros(n_rows).index_add(0, rows, x)

    def of_rows(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return values[rows]

    def size(self, x: torch.Tensor) -> int:
        return int(x.numel())

    def number(self, x: torch.Tensor) -> float:
        return float(x.item())

    def smallest(self, x: torch.Tensor) -> float:
        return cast("float", x.min().item())

    def largest(self, x: torch.Tensor) -> float:
        return cast("float", x.max().item())
