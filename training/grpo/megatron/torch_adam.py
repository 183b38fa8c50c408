"""Core's distributed optimizer over torch's Adam (TransformerEngine and Apex are missing): made loadable.

Source  Megatron-core 0.16.1 and 0.19.2, `optimizer/distrib_optimizer.py`: its state is unknown before a first step;
        the count of steps, which torch has for each tensor, is not among what is stored for a tensor, and missed when
        that is read; and read from the groups it is one tensor for all, which a step would count up for each of them.
Law     where Adam is not torch's, nothing is done.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

_STEP = "step"


@contextmanager
def loadable(optimizer: Any) -> Iterator[None]:
    """Makes the optimizer able to load a state while this is open. Its state before is lost."""
    parts = [part for part in getattr(optimizer, "chained_optimizers", [optimizer]) if _is_torch_s(part)]
    for part in parts:
        if not part.optimizer.state:
            part._init_optimizer_states_with_dummy_values()
        part._set_main_param_and_optimizer_states = _with_step(part)
    yield
    for part in parts:
        del part._set_main_param_and_optimizer_states
        for state in part.optimizer.state.values():
            state[_STEP] = state[_STEP].clone()


def _is_torch_s(optimizer: Any) -> bool:
    return isinstance(optimizer, DistributedOptimizer) and type(optimizer.optimizer).__module__.startswith("torch.")


def _with_step(optimizer: Any) -> Any:
    put = optimizer._set_main_param_and_optimizer_states

    def with_step(parameter: Any, tensors: dict[str, Any]) -> None:
        group, nth = optimizer.model_param_group_index_map[parameter]
        main = optimizer.optimizer.param_groups[group]["params"][nth]
        put(parameter, {_STEP: optimizer.optimizer.state[main][_STEP], **tensors})

    return with_step
