"""The command, environment and log file of each vLLM of our own.

Law     a secret is never in an argument: the key goes in the variable VLLM_API_KEY. No default of the model's
        `generation_config.json` applies.
CPU     the engine in one process with its worker, one thread per `cpu_threads`, none of them bound to a core; several
        stages are `ray_executor`'s alone.
GPU     each replica sees devices of its own: the next `gpus_per_replica` of those that are visible here.
Nodes   of a replica that is spread over several the ranks are Ray's actors (`ray_executor`), the server starts here.
Errors  those of `device` and `folders`; ConfigError `gpus_missing`, `config_invalid`.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import aiohttp

from paddock.errors import ConfigError
from paddock.http.access import TOKEN_VARIABLE
from paddock.http.transport import SERVER_KEEPALIVE_S
from paddock.server.vllm.device import find_device
from paddock.server.vllm.folders import LogFolder
from paddock.server.vllm.launch_settings import GROUP_VARIABLE, Device, LaunchSettings
from paddock.server.vllm.processes import VllmCommand, VllmProcess

CPU_KV_CACHE_GIB = 4
RAY_SERVER = "paddock.server.vllm.ray_server"


class ServedModel(NamedTuple):
    """The model that is served, besides what the `launch` block says."""

    model: str
    """Folder or name, also the name under which it is served."""
    key: str | None = None
    """None: the servers ask for none."""
    options: Sequence[str] = ()
    """Further arguments of vLLM's API server; those of the `launch` block go over them. No secrets."""


class Launcher:
    """Makes the processes of one server's replicas. To be closed: it holds the folder of their logs."""

    def __init__(
        self, model: ServedModel, settings: LaunchSettings, device: Device, folder: LogFolder, *, name: str
    ) -> None:
        self.device = device
        self._model = model
        self._settings = settings
        self._folder = folder
        self._name = name

    @classmethod
    async def make(cls, model: ServedModel, settings: LaunchSettings, *, name: str) -> "Launcher":
        """A launcher; it asks vLLM what it runs on where the config does not say."""
        device: Device = await find_device(_python(settings)) if settings.device == "auto" else settings.device
        if device == "cpu" and settings.pipeline_parallel_size > 1 and settings.ray is None:
            raise ConfigError(
                "launch.pipeline_parallel_size: on a CPU the stages of a vLLM are placed by training runs alone, and "
                "with `launch.device: cpu`",
                kind="config_invalid",
            )
        folder = LogFolder(settings.folder, name, Path(tempfile.gettempdir()))
        return cls(model, settings, device, folder, name=name)

    def close(self) -> None:
        """Release the folder of the logs; a second time changes nothing."""
        self._folder.close()

    def maker(self, nth: int, session: aiohttp.ClientSession) -> Callable[[], VllmProcess]:
        """What makes the process of replica `nth`, each time that it is started."""
        command = VllmCommand(
            self.argv(),
            self.env(nth),
            self._folder.path / f"{nth}.log",
            self._settings.start_timeout_s,
            self._settings.stop_timeout_s,
            f"{self._model.model} on a {self.device}",
            model=self._model.model,
            key=self._model.key,
            stall_timeout_s=self._settings.stall_timeout_s,
        )
        return lambda: VllmProcess(f"{self._name}-{nth}", command, session)

    def argv(self) -> list[str]:
        """vLLM's server, without host and port."""
        name, settings = self._model.model, self._settings
        # Not `vllm serve`: that asks for the version of the distribution `vllm`, which the CPU build is not.
        module = "vllm.entrypoints.openai.api_server" if settings.ray is None else RAY_SERVER
        argv = [str(_python(settings)), "-P", "-m", module, "--model", name]
        argv += ["--served-model-name", name, "--generation-config", "vllm", *self._model.options]
        options = {
            "--dtype": settings.dtype,
            "--max-model-len": settings.max_model_len,
            "--max-num-seqs": settings.max_num_seqs,
        }
        for option, value in options.items():
            if value is not None:
                argv += [option, str(value)]
        if settings.enforce_eager:
            argv.append("--enforce-eager")
        if settings.weight_transfer is not None:
            argv += ["--weight-transfer-config", f'{{"backend":"{settings.weight_transfer}"}}']
        if settings.pipeline_parallel_size > 1:
            argv += ["--pipeline-parallel-size", str(settings.pipeline_parallel_size)]
        if self.device == "cpu":
            argv += ["--distributed-executor-backend", "uni"] if settings.ray is None else []
        else:
            argv += ["--tensor-parallel-size", str(settings.gpus_per_replica // settings.pipeline_parallel_size)]
            if settings.kv_cache_gib is not None:
                argv += ["--kv-cache-memory-bytes", str(settings.kv_cache_gib << 30)]
        return [*argv, *settings.serve_args, *settings.extra_args]

    def env(self, nth: int) -> dict[str, str]:
        settings = self._settings
        # Its own 5 s are as long as the time between two health checks: it closed connections as they were used.
        keep_alive = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(SERVER_KEEPALIVE_S)}
        env = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1", **keep_alive}
        for secret in ("VLLM_API_KEY", TOKEN_VARIABLE):
            env.pop(secret, None)
        if Path(self._model.model).expanduser().is_dir():
            env["HF_HUB_OFFLINE"] = "1"
        if self._model.key:
            env["VLLM_API_KEY"] = self._model.key
        if settings.weight_transfer is not None:
            env["VLLM_SERVER_DEV_MODE"] = "1"
        if settings.ray is not None:
            env |= {"RAY_ADDRESS": settings.ray.address, GROUP_VARIABLE: settings.ray.placement_group}
        if self.device == "cpu":
            env |= {
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if settings.ray is None else "1",
                "VLLM_CPU_KVCACHE_SPACE": str(settings.kv_cache_gib or CPU_KV_CACHE_GIB),
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": str(settings.cpu_threads),
            }
        elif settings.replicas > 1:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(_devices(settings, nth))
        return {**env, **settings.env}


def _python(settings: LaunchSettings) -> Path:
    return (settings.python or Path(sys.executable)).expanduser()


def _devices(settings: LaunchSettings, nth: int) -> list[str]:
    """The GPUs of replica `nth`, by name."""
    gpus = settings.gpus_per_replica
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(number) for number in range(nth * gpus, (nth + 1) * gpus)]
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if len(names) < settings.replicas * gpus:
        raise ConfigError(
            f"launch: {settings.replicas} replicas of {gpus} GPUs, but CUDA_VISIBLE_DEVICES names {len(names)}",
            kind="gpus_missing",
        )
    return names[nth * gpus : (nth + 1) * gpus]
