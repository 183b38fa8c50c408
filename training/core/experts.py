"""The experts of a sample as arrays of numpy's, [rows, layers, k]: what trainers replay routers by.

Types   int32 for other trainers; int8 or int16, where all ids fit, for our own: as they are recorded.
Law     rows are those of `paddock.types.routed_experts`: one for each id of the sample but the last. numpy is imported
        where it is used: it comes with trainers, not with us.
"""

from typing import Any

from paddock.types import RoutedExperts


def expert_array(text: str) -> Any:
    """Of int32, writable, and its own."""
    import numpy as np

    return expert_view(RoutedExperts.from_text(text)).astype(np.int32)


def expert_view(given: RoutedExperts) -> Any:
    """Without a copy, and not to be written to."""
    import numpy as np

    ids = np.frombuffer(given.data, dtype=f"<i{given.width}")
    return ids.reshape(given.rows, given.layers, given.k)


def placeholder_array(rows: int, layers: int, k: int) -> Any:
    """The first experts of each layer, for rows that nothing is trained on: trainers take zeros alone for a mistake."""
    import numpy as np

    return np.broadcast_to(np.arange(k, dtype=np.int32), (rows, layers, k)).copy()


__all__ = ["expert_array", "expert_view", "placeholder_array"]
