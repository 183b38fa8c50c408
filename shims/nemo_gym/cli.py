"""NeMo-Gym's entry points: servers that start, are looked after, and end.

Law     `start` blocks until all servers are ready. They run in this process, in a thread; the head server's port names
        them for `RolloutCollectionHelper`.
Errors  those of `paddock.training.nemo_rl.serving`.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME
from paddock.training.nemo_rl.serving import EnvironmentService

_log = logging.getLogger(__name__)
services: dict[int, EnvironmentService] = {}
"""Started ones, by the head server's port."""


class GlobalConfigDictParserConfig(NamedTuple):
    """Where a config comes from."""

    dotenv_path: Path | None = None
    """A file of variables; not read: configs name their secrets as `${oc.env:NAME}`."""
    initial_global_config_dict: Mapping[str, Any] = {}
    """Plain or OmegaConf's."""
    skip_load_from_cli: bool = True
    """There is no command line to read here."""


class RunHelper:
    def __init__(self) -> None:
        self._service = EnvironmentService()
        self._port = 0

    def start(self, global_config_dict_parser_config: GlobalConfigDictParserConfig) -> None:
        given = global_config_dict_parser_config
        if given.dotenv_path is not None and Path(given.dotenv_path).exists():
            _log.warning("%s: is not read; name secrets as ${oc.env:NAME} in the config", given.dotenv_path)
        config = given.initial_global_config_dict
        self._service.start(config)
        self._port = int((config.get(HEAD_SERVER_KEY_NAME) or {}).get("port") or 0)
        services[self._port] = self._service

    def poll(self) -> None:
        """Raises when anything has died."""
        self._service.poll()

    def shutdown(self) -> None:
        services.pop(self._port, None)
        self._service.close()
