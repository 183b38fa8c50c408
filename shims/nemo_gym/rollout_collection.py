"""NeMo-Gym's rollouts of rows, over the servers that `nemo_gym.cli` started in this process."""

from collections.abc import Sequence
from typing import Any

from nemo_gym.cli import services
from nemo_gym.server_utils import BaseServerConfig
from paddock.training.nemo_rl.serving import EnvironmentService
from paddock.training.nemo_rl.streaming import ResultStream


class RolloutCollectionHelper:
    def run_examples(self, examples: Sequence[dict[str, Any]], head_server_config: BaseServerConfig) -> ResultStream:
        """An iterator of awaitables, each of a row as it was given and its result, as they are done. To be called in
        a running loop."""
        return services.get(head_server_config.port, EnvironmentService()).run(examples)
