"""Weights of a model that several processes hold: each reads its own slices of the safetensors, and no more.

Law     the model was made on torch's device `meta` and sharded; its weights and buffers are then those that
        `from_pretrained` gives, to the bit. Conversions (experts of a layer in one tensor), tied weights and buffers
        that no file has are those of Transformers' own loader, which knows sharded tensors.
Source  Transformers 5.19, `PreTrainedModel.from_pretrained`; one that is older reads no slices.
Errors  ConfigError for a weight that the files do not have, or have in another shape.
"""

import json
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open

from paddock.errors import ConfigError

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


def weight_files(model_name: str) -> list[Path]:
    """The model's safetensors, as its index names them; none where it has others, or this Transformers reads no
    slices."""
    if find_spec("transformers.distributed") is None or find_spec("transformers.distributed.sharding_utils") is None:
        return []
    folder = Path(model_name)
    if not folder.is_dir():
        folder = Path(snapshot_download(model_name, allow_patterns=["*.safetensors", "*.json"]))
    return safetensor_files(folder)


def safetensor_files(folder: Path) -> list[Path]:
    """The safetensors of a folder, as its index names them; none where it has others."""
    if not (folder / INDEX).is_file():
        return [folder / FILE] if (folder / FILE).is_file() else []
    return [folder / name for name in sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))]


def read_weights(model: Any, files: list[Path], name: str, *, home: torch.device, device: torch.device) -> None:
    """Read this process's part of the weights. `home`: where weights are held; `device`: where buffers are."""
    # Of one version: with another, all processes read the whole model.
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import convert_and_load_state_dict_in_model
    from transformers.modeling_utils import LoadStateDictConfig

    adapters = {key for key, _ in model.named_parameters() if key.endswith((".lora_a", ".lora_b"))}
    config = LoadStateDictConfig(
        pretrained_model_name_or_path=name,
        device_map={"": home},
        weight_mapping=get_model_conversion_mapping(model),
        ignore_mismatched_sizes=True,  # reported below, with the names
    )
    with ExitStack() as opened:
        slices: dict[str, Any] = {}
        for file in files:
            reader = opened.enter_context(safe_open(file, framework="pt"))
            slices |= {key: _OwnSlice(reader.get_slice(key)) for key in reader.keys()}  # noqa: SIM118 - it is no mapping
        info, _ = convert_and_load_state_dict_in_model(model=model, state_dict=slices, load_config=config)
    info = model._finalize_model_loading(model, config, info)
    unread = (set(info.missing_keys) - adapters) | {key for key, *_ in info.mismatched_keys}
    if unread:
        raise ConfigError(
            f"policy.model_name: {name}: {len(unread)} weights are not in its files, or have another shape: "
            f"{', '.join(sorted(unread)[:3])}",
            kind="model",
        )
    for buffer in model.buffers():
        buffer.data = buffer.data.to(device)


class _OwnSlice:
    """A tensor of a file, of which parts are read into memory of their own: as the library gives them they are views of
    the file, and hold on to it."""

    def __init__(self, in_file: Any) -> None:
        self._in_file = in_file

    def __getitem__(self, index: Any) -> torch.Tensor:
        part: torch.Tensor = self._in_file[index]
        return part.clone()

    def get_shape(self) -> Any:
        return self._in_file.get_shape()

    def get_dtype(self) -> Any:
        return self._in_file.get_dtype()
