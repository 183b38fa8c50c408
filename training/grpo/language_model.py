"""The model that is trained: read in the form of Hugging Face, and log-probs of given tokens under it.

Formula log-prob of the id at position i = log_softmax(logits at i - 1, divided by the temperature) in float32, at that
        id: of the distribution that the engine sampled from and reported (vLLM's processed log-probs) as long as
        `top_p` is 1 and there is no `top_k`, `min_p` or penalty; with those the engine's are of a cut distribution, and
        differ.
Load    one process has the whole model in memory; of several each makes it without weights, and reads its own part of
        them once it is sharded.
Law     no dropout, as in the engine, though the model is in training mode (for activation checkpointing). The weights
        are float32; with `bfloat16` each computation has its own copies of them in bfloat16, through which
        gradients flow back: as FSDP does it, and as an engine in bfloat16 computes.
Errors  ConfigError for a model that can't be read.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import groupby
from typing import Any, TypeVar

import torch
from torch.func import functional_call
from transformers import AutoConfig, AutoModelForCausalLM

from paddock.errors import ConfigError
from paddock.training.grpo.language_head import LanguageHead
from paddock.training.grpo.microbatches import MicroBatch
from paddock.training.grpo.packed_rows import pack_attention, pack_ids, why_not_packed
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.routers import freeze_routers
from paddock.training.grpo.sharded_weights import read_weights, weight_files
from paddock.training.grpo.sharding import DTYPES, ShardGroup
from paddock.training.grpo.token_scores import ScoreForm, TokenScores, token_scores

T = TypeVar("T")
_log = logging.getLogger("paddock.training")


def load_model(
    policy: PolicyConfig, shard_group: ShardGroup, dtype: torch.dtype = torch.float32, kind: Any = AutoModelForCausalLM
) -> Any:
    """The model, in `dtype`, in this process's memory, or without weights (on `meta`) where `ShardedModel` reads them.
    `kind`: Transformers' class for it."""
    name = policy.model_name
    form = {"dtype": dtype, "attn_implementation": policy.torch_cfg.attention}
    try:
        if shard_group.sharded and weight_files(name):
            with torch.device("meta"):
                model = kind.from_config(AutoConfig.from_pretrained(name), **form)
        else:
            model = kind.from_pretrained(name, **form)
    except (OSError, ValueError) as error:
        raise ConfigError(f"policy.model_name: {name}: {error}", kind="model") from error
    if policy.dtensor_cfg.activation_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if policy.freeze_moe_router:
        freeze_routers(model)
    _without_dropout(model)
    return model.train()


def checkpoint_form(model: Any, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights with the names and shapes of a checkpoint, which vLLM expects: transformers 5 holds the experts of a
    layer in one tensor."""
    try:
        revert = import_module("transformers.core_model_loading").revert_weight_conversion
    except ImportError:  # before 5
        return dict(weights)
    return dict(revert(model, dict(weights)))


def checkpoint_stream(model: Any, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The same, a layer of the model at a time; `weights` are in the model's own order."""
    for _, layer in groupby(weights, lambda named: _layer_of(named[0])):
        yield from checkpoint_form(model, dict(layer)).items()


def _layer_of(name: str) -> str:
    """What comes before and with the first number of a parameter's name."""
    parts = name.split(".")
    numbers = (nth for nth, part in enumerate(parts) if part.isdigit())
    return ".".join(parts[: next(numbers, -1) + 1])


class ShardedModel:
    """A model, sharded over the processes of a group, and the module around it whose forward call is the
    computation."""

    def __init__(self, model: Any, module: Any, policy: PolicyConfig, shard_group: ShardGroup) -> None:
        self.model = model
        self._sharded = shard_group.sharded
        self.module = shard_group.shard(module, model, DTYPES[policy.precision])
        if any(value.is_meta for value in model.parameters()):
            name, home = policy.model_name, shard_group.home
            read_weights(model, weight_files(name), name, home=home, device=shard_group.device)
        self._frame = _Frame(self.module)
        self._dtype = DTYPES[policy.precision]
        self._cast = not self._sharded and self._dtype != torch.float32  # FSDP casts itself

    def computing(self, work: Callable[[], T]) -> T:
        """Do the work, which may call the module, with weights in the computation's precision. A backward pass has to
        be in it as well: layers (with activation checkpointing) and logits are computed again there."""
        if not self._cast:
            return work()
        weights = {name: value.to(self._dtype) for name, value in self._frame.named_parameters()}
        result: T = functional_call(self._frame, weights, (work,))
        return result

    def release(self) -> None:
        """Forget what FSDP has whole after scores without a backward pass."""
        if self._sharded:
            self.module.reshard()


class LanguageModel(ShardedModel):
    """Log-probs under a model."""

    def __init__(self, model: Any, policy: PolicyConfig, shard_group: ShardGroup) -> None:
        super().__init__(model, _Scorer(model, policy), policy, shard_group)
        self.packed = policy.sequence_packing.enabled and _can_pack(model)
        """Whether rows of a micro-batch share a sequence."""

    def scores(self, micro: MicroBatch, *, entropies: bool = False) -> TokenScores:
        """Scores of the micro-batch's trained tokens, and their entropies where these are asked for."""
        inputs: dict[str, Any] = {"input_ids": micro.ids}
        at = micro.row * micro.ids.shape[1] + micro.at
        if self.packed:
            row = pack_ids(micro)
            inputs = {"input_ids": row.ids, "position_ids": row.positions, "row_lengths": row.lengths}
            at = row.at
        scores: TokenScores = self.module(inputs, at, entropies)
        return scores


class _Scorer(torch.nn.Module):  # type: ignore[misc]
    """The module that FSDP sees as a whole: what is computed between two of its forward calls has no weights."""

    def __init__(self, model: Any, policy: PolicyConfig) -> None:
        super().__init__()
        self.model = model
        self._head = LanguageHead(model)
        self._form = ScoreForm(policy.logprob_chunk_size, policy.generation.temperature)

    def forward(self, inputs: dict[str, Any], at: torch.Tensor, entropies: bool) -> TokenScores:
        """Of the tokens at the indices `at`, `[tokens]`, of the flat ids."""
        hidden, head = self._head.split(inputs)
        targets, form = inputs["input_ids"].flatten()[at], self._form._replace(entropies=entropies)
        return token_scores(hidden.flatten(0, 1)[at - 1], targets, head, form)


class _Frame(torch.nn.Module):  # type: ignore[misc]
    """A module around another, so that weights can be replaced for the time of any work."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[], Any]) -> Any:
        return work()


def _can_pack(model: Any) -> bool:
    """Whether rows of the model can share a sequence, in which case its attention keeps them apart from now on."""
    why = why_not_packed(model)
    if why is None:
        pack_attention(model)
    else:
        _log.warning("policy.sequence_packing: rows of %s are padded, for %s", type(model).__name__, why)
    return why is None


def _without_dropout(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if name.endswith("dropout") and isinstance(value, float):
                setattr(module, name, 0.0)
