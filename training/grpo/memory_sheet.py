"""The memory of one GPU on which policy and engine take turns, by calculation: what each needs, and what fits where.

Formula weights: 2 or 4 bytes each as `policy.precision` says, 4 and 2 where all are trained in bfloat16; gradients 4;
        the two moments of Adam 8, or 2 in 8 bits; the KL term's reference model 2 or 4, as `policy.precision` says.
        Activations of a layer for each token: the results of its products and norms; with checkpointing those of one
        layer, and the input of each. Logits 12 bytes for each entry of the vocabulary and each of
        `policy.logprob_chunk_size` tokens.
Fit     the policy while the engine sleeps, with `RESERVED` for the contexts of both and what lies between blocks; the
        engine's cache in the rest of its share. Calculated, not measured: a sheet says what can't fit, and about what
        does.
Shape   dense models in the form of Llama and Qwen; of another there is no sheet.
"""

from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.training.grpo.policy_config import LoraConfig, PolicyConfig

GIB = 1 << 30
RESERVED = 2 * GIB
ENGINE_OWN = 3 * GIB // 2
"""What vLLM takes besides weights and cache: activations of a batch, CUDA graphs."""
GPUS_GIB = (24, 40, 48, 80)
DEFAULT_SHARE = 0.92
"""vLLM's `gpu_memory_utilization`."""


class ModelSizes(NamedTuple):
    """Sizes of a dense model."""

    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    """Input and output layer have one weight."""
    head_norms: bool = True
    """Queries and keys are normalised, as in Qwen3."""

    @property
    def linear_shapes(self) -> list[tuple[int, int]]:
        """In and out of the linear layers of one layer."""
        heads, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = [(self.hidden, heads), (self.hidden, kv), (self.hidden, kv), (heads, self.hidden)]
        inner = self.intermediate
        return [*attention, (self.hidden, inner), (self.hidden, inner), (inner, self.hidden)]

    @property
    def parameters(self) -> int:
        norms = 2 * self.hidden + 2 * self.head_dim * self.head_norms
        layer = sum(rows * columns for rows, columns in self.linear_shapes) + norms
        return self.vocabulary * self.hidden * (1 if self.tied else 2) + self.layers * layer + self.hidden

    def adapters(self, config: LoraConfig) -> int:
        """Weights of adapters beside all linear layers."""
        return self.layers * config.dim * sum(rows + columns for rows, columns in self.linear_shapes)


class MemorySheet(NamedTuple):
    """Bytes on the GPU."""

    weights: int
    adapters: int
    gradients: int
    optimizer: int
    activations: int
    """Of `tokens`."""
    logits: int
    tokens: int
    """Of the largest micro-batch."""
    engine: int
    """The engine's weights."""
    cache_per_token: int
    stored: int
    """A checkpoint on the disk: what is trained, in float32, and the optimizer's state."""

    @property
    def training(self) -> int:
        """The peak while the policy trains, with all that is reserved."""
        return RESERVED + sum(self[:6])

    def longest(self, gpu: int) -> int:
        """Tokens of a micro-batch that fit; 0: none."""
        left = gpu - (self.training - self.activations)
        return max(0, left * self.tokens // self.activations)

    def cache_tokens(self, gpu: int, share: float) -> int:
        """Tokens in the engine's cache; 0: not even the weights fit."""
        return max(0, int(gpu * share) - self.engine - ENGINE_OWN) // self.cache_per_token


def model_sizes(folder: Path) -> ModelSizes | None:
    """Sizes from the model's `config.json`; None: there is none, or the model has another form."""
    file = folder.expanduser() / "config.json"
    info = orjson.loads(file.read_bytes()) if file.is_file() else {}
    needed = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "vocab_size")
    if not all(isinstance(info.get(name), int) for name in needed) or any("expert" in name for name in info):
        return None
    hidden, layers, intermediate, heads, vocabulary = (info[name] for name in needed)
    return ModelSizes(
        hidden=hidden,
        layers=layers,
        intermediate=intermediate,
        heads=heads,
        kv_heads=info.get("num_key_value_heads") or heads,
        head_dim=info.get("head_dim") or hidden // heads,
        vocabulary=vocabulary,
        tied=bool(info.get("tie_word_embeddings")),
        head_norms=info.get("model_type") == "qwen3",
    )


def memory_sheet(policy: PolicyConfig, sizes: ModelSizes, *, has_reference: bool = False) -> MemorySheet:
    """`has_reference`: the loss has a KL term, for which there is a second model where all weights are trained."""
    lora, width = policy.dtensor_cfg.lora_cfg, 2 if policy.precision == "bfloat16" else 4
    adapters = sizes.adapters(lora) if lora.enabled else 0
    trained, moments = adapters or sizes.parameters, 2 if policy.optimizer.name.endswith("8bit") else 8
    copies = width if width == 2 else 0
    whole = width if adapters else 4 + copies
    longest, bound = policy.max_total_sequence_length, policy.micro_batch_tokens(learn=True)
    tokens = longest * policy.train_micro_batch_size if bound is None else max(bound, longest)
    return MemorySheet(
        weights=sizes.parameters * (whole + width * (has_reference and not adapters)),
        adapters=adapters * (4 + copies),
        gradients=trained * 4,
        optimizer=trained * moments,
        activations=tokens * _activations(sizes, width, checkpointing=policy.dtensor_cfg.activation_checkpointing),
        logits=12 * sizes.vocabulary * min(policy.logprob_chunk_size, tokens),
        tokens=tokens,
        engine=sizes.parameters * width,
        stored=trained * (4 + moments),
        cache_per_token=2 * sizes.layers * sizes.kv_heads * sizes.head_dim * width,
    )


def sheet_lines(sheet: MemorySheet, share: float | None) -> list[str]:
    """The sheet as text. `share`: the engine's `gpu_memory_utilization`; None: vLLM's own."""
    parts = [f"{name} {_gib(value)}" for name, value in zip(sheet._fields[:6], sheet[:6], strict=True) if value]
    lines = [
        f"training at {sheet.tokens:,} tokens: {_gib(sheet.training)} with {_gib(RESERVED)} reserved: "
        + ", ".join(parts)
    ]
    for size in GPUS_GIB:
        longest, cache = sheet.longest(size * GIB), sheet.cache_tokens(size * GIB, share or DEFAULT_SHARE)
        fits = "fits" if longest >= sheet.tokens and cache else "does not fit"
        lines.append(f"{size} GiB: {fits}; micro-batches of at most {longest:,} tokens, a cache of {cache:,}")
    lines.append(
        f"a checkpoint: {_gib(sheet.stored)} on the disk; with checkpointing.is_async as much memory of the CPU, while "
        "it is written"
    )
    return lines


def _activations(sizes: ModelSizes, width: int, *, checkpointing: bool) -> int:
    """Bytes for each token."""
    heads = sizes.heads * sizes.head_dim
    with_keys = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim
    # Norms are computed in float32.
    layer = width * (6 * sizes.hidden + 2 * with_keys + 2 * heads + 4 * sizes.intermediate) + 8 * sizes.hidden
    return sizes.layers * width * sizes.hidden + layer if checkpointing else sizes.layers * layer


def _gib(value: int) -> str:
    return f"{value / GIB:.1f} GiB"
