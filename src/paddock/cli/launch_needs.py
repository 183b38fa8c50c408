"""What a training config needs before it runs: which programs its harnesses run, which of its rows name images.

Law     what the config says alone counts: agents' harnesses at any depth of their settings; rows of which one names an
        image; where images are, from the settings of resources servers.
Errors  ConfigError for settings that can't be, and for rows that can't be read.
"""

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paddock.cli.image_rows import flat, read_rows
from paddock.config import Config, resolve_class
from paddock.harness.programs.catalogue import is_program
from paddock.sandbox.images import ImageSettings, candidates
from paddock.training.launch.prefetch import PrefetchNeeds
from paddock.training.launch.settings import RunLaunchSettings

_ROWS_LOOKED_AT = 100


def needs_of(settings: RunLaunchSettings, read: Any) -> PrefetchNeeds:
    """`read`: None where the trainer has a reader of its own; then its rows alone."""
    if read is None:
        return PrefetchNeeds(rows=_with_images([settings.train_path, settings.val_path], []))
    environment: Config = read.environment
    images = list(_image_settings(environment))
    data = read.config.data
    files = [part.data_path for part in (data.train, data.validation) if part is not None]
    return PrefetchNeeds(
        programs=list(dict.fromkeys(name for name in _harnesses(environment) if is_program(name))),
        rows=_with_images(files, images),
        formatters=list(dict.fromkeys(entry for image_settings in images for entry in image_settings.entries)),
        engine_on_cpu=_engine_on_cpu(read),
    )


def sandboxed_agents(config: Config) -> list[str]:
    """The keys of the blocks of agents whose commands run in sandboxes."""
    return [
        f"env.nemo_gym.{name}.agents.{instance.implementation}"
        for name, instance in config.instances.items()
        if instance.kind == "agents"
        and "sandbox" in resolve_class(instance.implementation, instance.kind).config_type.model_fields
    ]


def _settings(config: Config, kind: str) -> Iterator[Any]:
    for name, instance in config.instances.items():
        if instance.kind == kind:
            yield config.settings(name, resolve_class(instance.implementation, kind).config_type)


def _harnesses(config: Config) -> Iterator[str]:
    for settings in _settings(config, "agents"):
        yield from _values(settings.model_dump(mode="json"), "harness")


def _values(node: Any, key: str) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key and isinstance(value, str):
                yield value
            yield from _values(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, key)


def _image_settings(config: Config) -> Iterator[ImageSettings]:
    for settings in _settings(config, "resources_servers"):
        if isinstance(images := getattr(settings, "images", None), ImageSettings):
            yield images


def _with_images(files: list[str], images: list[ImageSettings]) -> list[str]:
    """Those of which a row names an image."""
    with_images = []
    for file in filter(None, files):
        rows = read_rows(argparse.Namespace(rows=Path(file), limit=_ROWS_LOOKED_AT))
        if any(candidates(flat(row), settings) for row in rows for settings in images or [ImageSettings()]):
            with_images.append(file)
    return with_images


def labels_of(read: Any) -> dict[str, int]:
    """The labels of `cluster.labels`, and the GPUs that the roles of each take."""
    placement = importlib.import_module("paddock.training.grpo.placement")
    labels: dict[str, int] = {}
    if any(read.config.cluster.labels.model_dump().values()):
        for need in placement.needs_of(read.config, _engines(read)):
            if need.label:
                labels[need.label] = labels.get(need.label, 0) + need.blocks * need.size * need.gpus
    return labels


def _engines(read: Any) -> Any:
    """The engines that a run starts; None: they run already."""
    config: Config = read.environment
    implementation = config.instance(read.model_server).implementation
    settings: Any = config.settings(read.model_server, resolve_class(implementation, "models_servers").config_type)
    return settings.launch


def _engine_on_cpu(read: Any) -> bool:
    launch = _engines(read)
    return launch is not None and "cpu" in {read.config.policy.torch_cfg.device, getattr(launch, "device", None)}
