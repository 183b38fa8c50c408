"""Which experts a mixture routed each token to, as NeMo-RL's router replay carries it in an item.

Source  NVIDIA-NeMo/RL, `nemo_rl/utils/routed_experts_codec.py`: `nrlre1:<dtype>:<tokens>x<layers>x<k>:<base64>`, or
        nested lists.
Errors  none: the reason why something can't be read is returned.
"""

from typing import Any

from paddock.types import RoutedExperts


def routes_shape(given: Any) -> tuple[int, int, int] | str:
    """The sizes of tokens, layers and k; or why they can't be read."""
    shape = _envelope(given) if isinstance(given, str) else _shape(given)
    if isinstance(shape, str):
        return shape
    return (shape[0], shape[1], shape[2]) if len(shape) == 3 else f"shape {shape}, not [tokens, layers, k]"


def _envelope(text: str) -> tuple[int, ...] | str:
    """The shape of an envelope, or why it can't be read."""
    try:
        given = RoutedExperts.from_text(text)
    except ValueError as error:
        return str(error)
    return given.rows, given.layers, given.k


def _shape(given: Any) -> tuple[int, ...] | str:
    """The shape of nested lists, or why it can't be read."""
    if isinstance(given, bool) or not isinstance(given, list | int):
        return "neither an envelope nor lists of integers"
    if isinstance(given, int):
        return ()
    shapes = {_shape(part) for part in given}
    if len(shapes) > 1:
        return "lists of several lengths"
    (inner,) = shapes or {()}
    return inner if isinstance(inner, str) else (len(given), *inner)
