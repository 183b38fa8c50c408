"""Trains by SkyRL on our environments: `python -m paddock.training.skyrl CONFIG ... -- SKYRL_KEY=VALUE ...`.

Before `--`: config files of environments, `key=value` over them, and `engine.KEY=VALUE`, settings of the model server
`models_servers/function`. After it: SkyRL's own keys.
"""

import sys
from typing import Any

import ray
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

from paddock.errors import ConfigError
from paddock.training.skyrl.experiment import PaddockExperiment
from paddock.training.skyrl.settings import SkyRlSettings, require_supported, settings_of

USAGE = "usage: python -m paddock.training.skyrl CONFIG ... [KEY=VALUE ...] -- SKYRL_KEY=VALUE ..."


def _train(cfg: Any, settings: SkyRlSettings) -> None:
    PaddockExperiment(cfg, settings).run()


def main(words: list[str]) -> None:
    """Read both configs, and train."""
    if "--" not in words:
        sys.exit(USAGE)
    split = words.index("--")
    try:
        settings = settings_of(words[:split])
        cfg = SkyRLTrainConfig.from_cli_overrides(words[split + 1 :])
        validate_cfg(cfg)
        require_supported(cfg.generator)
    except ConfigError as error:
        sys.stderr.write(f"error: {error.message}\n{USAGE}\n")
        sys.exit(2)
    initialize_ray(cfg)
    ray.get(ray.remote(num_cpus=1)(_train).remote(cfg, settings))


if __name__ == "__main__":
    main(sys.argv[1:])
