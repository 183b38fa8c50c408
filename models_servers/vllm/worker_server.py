"""The vllm model server in the process of a rollout worker, in front of vLLMs that another one has started.

Why     between two processes each call of a rollout costs an HTTP request on both sides, and so do its record and the
        end of that: a quarter to a half of what a rollout takes outside the engine (`benchmarks/training`).
Needs   the environment of Python that has vLLM, for the parsers that its config names.
Turns   in a folder of this process's own, unless `turn_store.folder` names one: a store is one process's business.
"""

import os
from typing import ClassVar

from paddock.models_servers.vllm.server import VllmServer


class WorkerVllmServer(VllmServer):
    OWN_PROCESS: ClassVar[bool] = False
    SHARED: ClassVar[bool] = False

    @property
    def store_name(self) -> str:
        return f"{self.name}-{os.getpid()}"
