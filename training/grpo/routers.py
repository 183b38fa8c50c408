"""The routers of a mixture of experts: what decides which experts a token goes to.

Names   of Transformers: a module `router`, or a `gate` beside `experts`. A `gate` without experts beside it, or one of
        a shared expert, decides nothing and is none.
Law     a frozen router has no gradient: neither the optimiser nor weight decay moves it. A model without routers stays
        as it is, because recipes freeze them whatever the model.
Source  NeMo-RL, `policy.megatron_cfg.freeze_moe_router`.
"""

from collections.abc import Iterator
from typing import Any


def freeze_routers(model: Any) -> None:
    for router in _routers(model):
        router.requires_grad_(requires_grad=False)


def _routers(model: Any) -> Iterator[Any]:
    for module in model.modules():
        parts = dict(module.named_children())
        if "router" in parts:
            yield parts["router"]
        if "gate" in parts and "experts" in parts:
            yield parts["gate"]
