"""Router replay: a token goes through the experts of another pass, not through those that its router would choose now.

Source  Ma et al. 2025, "Stabilizing MoE Reinforcement Learning by Aligning Training and Inference Routers": R3 replays
        the engine's experts in each pass of the trainer; R2 those of the trainer's pass before the step, in the passes
        of the step.
Law     only the choice is replayed: what an expert's answer weighs is made of the router's own logits, so that it
        learns. The reference policy and layers that predict further tokens choose by themselves.
Rows    of experts are those of `core.experts`: none for the last token of a row, which predicts nothing that is
        trained. It and padding go to experts in turn, each to the same number of tokens.
Order   a router calls its replay once for each micro-batch in the forward pass, without gradient where the backward
        pass computes it anew; that calls it with gradient, again in the order of micro-batches.
Memory  a row has a byte (two above 128 experts) for each token, layer of this stage and expert of a token, on the CPU.
Errors  ConfigError `router_replay`: a model without experts, or experts that do not fit it; BugError: a row has none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from numpy.typing import NDArray

from paddock.errors import BugError, ConfigError
from paddock.training.core.records import TrainRow
from paddock.training.grpo.megatron.inputs import Inputs, stage_of
from paddock.training.grpo.microbatches import MicroBatch

Experts = Mapping[int, NDArray[Any]]
"""By the row's index in the batch: `[tokens - 1, layers, k]`."""
Routing = Callable[[Sequence[MicroBatch], Sequence[Inputs]], AbstractContextManager[None]]
"""What chooses experts while a pass goes over these micro-batches."""


def as_routed(_micros: Sequence[MicroBatch], _inputs: Sequence[Inputs]) -> AbstractContextManager[None]:
    """Routers choose by themselves."""
    return nullcontext()


class RoutersOfStage:
    """The routers of a process's stages, which replay or record."""

    def __init__(self, models: Sequence[Any]) -> None:
        config = stage_of(models[0]).config
        if not config.num_moe_experts:
            raise ConfigError(
                "policy.router_replay.enabled: the model has no experts: set it to false", kind="router_replay"
            )
        self._n_experts, self._k, self._n_layers = config.num_moe_experts, config.moe_router_topk, config.num_layers
        self._dtype = np.int8 if self._n_experts <= 128 else np.int16
        self._divided = config.sequence_parallel
        self._layers: list[int] = []
        self._choices: list[ExpertChoice] = []
        for layer, router in _routers(models):
            if not hasattr(router, "router_replay"):
                raise ConfigError(
                    "policy.router_replay.enabled: this Megatron-core replays no routing: take 0.16 or later",
                    kind="router_replay",
                )
            router.router_replay = ExpertChoice()
            self._layers.append(layer)
            self._choices.append(router.router_replay)

    def replaying(self, experts: Experts) -> Routing:
        """Tokens go through these experts."""
        return partial(self._replaying, experts)

    def recording(self, found: dict[int, NDArray[Any]]) -> Routing:
        """Routers choose, and what they chose is in `found` afterwards: of this stage's layers, the others are 0; the
        same on all processes that share this stage. All of them have to call it."""
        return partial(self._recording, found)

    @contextmanager
    def _replaying(self, experts: Experts, micros: Sequence[MicroBatch], inputs: Sequence[Inputs]) -> Iterator[None]:
        laid = [self._laid(micro, given, experts) for micro, given in zip(micros, inputs, strict=True)]
        for nth, choice in enumerate(self._choices):
            choice.replay([ids[:, nth] for ids in laid])
        try:
            yield
        finally:
            self._reset()

    @contextmanager
    def _recording(
        self, found: dict[int, NDArray[Any]], micros: Sequence[MicroBatch], inputs: Sequence[Inputs]
    ) -> Iterator[None]:
        recorded: list[list[torch.Tensor]] = [[] for _ in self._choices]
        for choice, of_layer in zip(self._choices, recorded, strict=True):
            choice.record(of_layer)
        try:
            yield
        finally:
            self._reset()
        own: dict[int, NDArray[Any]] = {}
        for nth, (micro, given) in enumerate(zip(micros, inputs, strict=True)):
            of_micro = [of_layer[nth] for of_layer in recorded]
            own.update(self._by_row(micro, given, torch.stack(of_micro, dim=1)) if of_micro else {})
        every: list[Any] = [None] * parallel_state.get_data_parallel_world_size()
        dist.all_gather_object(every, own, group=parallel_state.get_data_parallel_group())
        for of_process in every:
            found.update(of_process)

    def _reset(self) -> None:
        for choice in self._choices:
            choice.reset()

    def _laid(self, micro: MicroBatch, inputs: Inputs, experts: Experts) -> torch.Tensor:
        """`[tokens of this process, layers of this stage, k]`, in the order in which routers have the tokens."""
        n_rows = len(micro.lengths)
        lengths = [inputs.ids.shape[1]] * n_rows if inputs.ends is None else inputs.ends.diff().tolist()
        numbers: Sequence[int | None] = micro.rows or [None] * n_rows
        rows = [self._padded(nth, experts, length) for nth, length in zip(numbers, lengths, strict=True)]
        whole = torch.stack(rows, dim=1) if inputs.ends is None else torch.cat(rows)[:, None]
        if inputs.own is not None:
            whole = whole[inputs.own.cpu()]
        if self._divided:
            size = parallel_state.get_tensor_model_parallel_world_size()
            whole = whole.chunk(size)[parallel_state.get_tensor_model_parallel_rank()]
        return whole.flatten(0, 1)

    def _padded(self, nth: int | None, experts: Experts, length: int) -> torch.Tensor:
        """`[length, layers of this stage, k]` of a row; None: one that stands in for none."""
        in_turn = (np.arange(length)[:, None] * self._k + np.arange(self._k)) % self._n_experts
        padded = np.repeat(in_turn[:, None].astype(self._dtype), len(self._layers), axis=1)
        if nth is not None:
            own = self._of_row(nth, experts)
            padded[: len(own)] = own
        return torch.from_numpy(padded)

    def _of_row(self, nth: int, experts: Experts) -> NDArray[Any]:
        if nth not in experts:
            raise BugError(f"row {nth} has no experts to replay: it had to be masked")
        whole = experts[nth]
        if whole.shape[1:] != (self._n_layers, self._k):
            raise ConfigError(
                f"policy.router_replay: experts of {whole.shape[1]} layers, {whole.shape[2]} for each token, came to a "
                f"model of {self._n_layers} layers with {self._k} each",
                kind="router_replay",
            )
        own = whole[:, self._layers]
        twice = self._k > 1 and bool((own[..., 0] == own[..., 1]).any())
        if own.size and (twice or own.min() < 0 or own.max() >= self._n_experts):
            raise ConfigError(
                f"policy.router_replay: no experts of a token: one twice, or none of {self._n_experts}",
                kind="router_replay",
            )
        return own

    def _by_row(self, micro: MicroBatch, inputs: Inputs, recorded: torch.Tensor) -> dict[int, NDArray[Any]]:
        """The inverse of `_laid`."""
        whole = recorded.unflatten(0, (-1, inputs.ids.shape[0]))
        if self._divided:
            whole = torch.cat(_gathered(whole, parallel_state.get_tensor_model_parallel_group()))
        if inputs.own is not None:
            group = parallel_state.get_context_parallel_group()
            order = torch.cat(_gathered(inputs.own, group)).argsort()
            whole = torch.cat(_gathered(whole, group))[order]
        own = whole.cpu().numpy()
        starts = [0] * len(micro.rows) if inputs.ends is None else inputs.ends.tolist()
        found = {}
        for at, (nth, length) in enumerate(zip(micro.rows, micro.lengths, strict=False)):
            start, column = starts[at], at if inputs.ends is None else 0
            found[nth] = np.zeros((length - 1, self._n_layers, self._k), self._dtype)
            found[nth][:, self._layers] = own[start : start + length - 1, column]
        return found


class ExpertReplay:
    """`policy.router_replay` of a policy: which pass replays what."""

    def __init__(self, models: Sequence[Any], *, of_engine: bool) -> None:
        """`of_engine`: R3; else R2."""
        self._routers = RoutersOfStage(models)
        self._of_engine = of_engine
        self._recorded: dict[int, NDArray[Any]] = {}
        self._learned = False

    def scoring(self, rows: Sequence[TrainRow]) -> Routing:
        """Of a pass without a gradient. Between optimiser steps R2 records nothing: the weights are others."""
        if self._of_engine or self._learned:
            return self._replaying(rows)
        return self._routers.recording(self._recorded)

    def learning(self, rows: Sequence[TrainRow]) -> Routing:
        """Of a pass with a gradient. Without one before it, R2 has nothing to replay: it is the first itself."""
        self._learned = True
        return self._replaying(rows)

    def forget(self) -> None:
        """What was recorded is of another batch."""
        self._recorded.clear()
        self._learned = False

    def _replaying(self, rows: Sequence[TrainRow]) -> Routing:
        if self._of_engine:
            return self._routers.replaying(_of_engine(rows))
        return self._routers.replaying(self._recorded) if self._recorded else as_routed


class ExpertChoice:
    """The choice of one router's experts, called as Megatron-core calls its own `RouterReplay`."""

    def __init__(self) -> None:
        self._replayed: Sequence[torch.Tensor] | None = None
        self._recorded: list[torch.Tensor] | None = None
        self._calls = {False: 0, True: 0}

    def replay(self, ids: Sequence[torch.Tensor]) -> None:
        """`ids`: of each micro-batch, `[tokens, k]`."""
        self._replayed = ids

    def record(self, ids: list[torch.Tensor]) -> None:
        """Each micro-batch's choice is appended to `ids`."""
        self._recorded = ids

    def reset(self) -> None:
        self._replayed = self._recorded = None
        self._calls = {False: 0, True: 0}

    def get_replay_topk(
        self,
        scores: torch.Tensor,
        topk: int,
        num_groups: int | None = None,
        group_topk: int | None = None,
        default_compute_topk: Callable[..., tuple[torch.Tensor, torch.Tensor]] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`[tokens, k]` of scores, and of experts."""
        if self._replayed is None:
            assert default_compute_topk is not None
            chosen, ids = default_compute_topk(scores, topk, num_groups=num_groups, group_topk=group_topk)
            if self._recorded is not None:
                self._recorded.append(ids.to(torch.int32))  # collectives know no shorter
            return chosen, ids
        with_gradient = torch.is_grad_enabled()
        nth = self._calls[with_gradient]
        self._calls[with_gradient] += 1
        ids = self._replayed[nth].to(scores.device, torch.long)
        if len(ids) != len(scores):
            raise BugError(f"a router has {len(scores)} tokens, and experts of {len(ids)} are replayed")
        return scores.gather(1, ids), ids


def _of_engine(rows: Sequence[TrainRow]) -> Experts:
    return {nth: row.routed_experts for nth, row in enumerate(rows) if row.routed_experts is not None}


def _routers(models: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The layer's number in the whole model, from 0, and its router."""
    for model in models:
        for layer in stage_of(model).decoder.layers:
            router = getattr(getattr(layer, "mlp", None), "router", None)
            if router is not None:
                yield layer.layer_number - 1, router


def _gathered(value: torch.Tensor, group: Any) -> list[torch.Tensor]:
    """The values of all processes of the group, in order; of the same shape."""
    values = [torch.empty_like(value) for _ in range(dist.get_world_size(group))]
    dist.all_gather(values, value.contiguous(), group=group)
    return values
