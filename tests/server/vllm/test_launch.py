"""What a `launch` block comes to: the command, its environment, its folder, and the interpreter that is asked first."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import BaseModel

from paddock.config import validate
from paddock.errors import ConfigError
from paddock.server.vllm.device import find_device
from paddock.server.vllm.folders import LogFolder
from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.server.vllm.launcher import Launcher, ServedModel
from paddock.temporary import is_private

SERVED = ServedModel("m", "geheim", ["--reasoning-parser", "qwen3"])


class Launching(BaseModel):
    launch: LaunchSettings


def gone(pids: Sequence[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


def test_where_nobody_says_which_folder_each_server_has_its_own(tmp_path: Path) -> None:
    with LogFolder(None, "policy", tmp_path) as first, LogFolder(None, "policy", tmp_path) as second:
        assert first.path.name == "policy"
        assert second.path == first.path.with_name("policy.2")
    assert is_private(tmp_path / f"paddock-{os.geteuid()}"), "what else is kept there is nobody else's to read"
    with LogFolder(None, "policy", tmp_path) as third:
        assert third.path == first.path
        assert third.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
async def test_an_interpreter_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nsetsid sleep 300 & echo $! >{tmp_path}/pids\necho $$ >>{tmp_path}/pids\nsleep 300\n")
    python.chmod(0o755)
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"launch\.python.*did not say what vLLM runs on within 3 s") as error:
        await find_device(python, timeout_s=3.0)
    assert time.monotonic() - started < 60
    assert error.value.kind == "vllm_missing"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert gone(pids)


async def test_an_interpreter_that_was_killed_is_no_vllm(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -9 $$\n")
    python.chmod(0o755)
    with pytest.raises(ConfigError, match="has no vLLM that works: it wrote nothing"):
        await find_device(python)


@pytest.mark.parametrize(
    ("version", "is_old"), [("0.9.2", True), ("0.31.1+cpu", True), ("0.32.0", False), ("1.0", False)]
)
async def test_an_old_vllm_is_not_started(tmp_path: Path, version: str, is_old: bool) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho version={version}\necho device=cpu\n")
    python.chmod(0o755)
    if not is_old:
        assert await find_device(python) == "cpu"
        return
    with pytest.raises(ConfigError, match=rf"has vLLM {re.escape(version)}; 0\.32 or newer") as error:
        await find_device(python)
    assert error.value.kind == "vllm_missing"


@pytest.mark.parametrize(
    "argument", ["--api-key", "--api_key=geheim", "--hf-token", "--api-k", "--ssl-keyfile-password"]
)
def test_a_secret_is_no_argument(argument: str) -> None:
    block = {"launch": {"extra_args": ["--seed", 1, argument, "geheim"]}}
    with pytest.raises(ConfigError) as error:
        validate(Launching, block, "policy")
    assert "launch.env" in error.value.message
    assert "geheim" not in str(error.value)
    with pytest.raises(ValueError, match="command line") as plain:
        LaunchSettings.model_validate(block["launch"])
    assert "geheim" not in str(plain.value)


def test_what_only_looks_like_a_secret_is_none() -> None:
    args = ["--api-server-count", "2", "--tokenizer-mode", "auto", "--max-model-len", "8"]
    assert LaunchSettings.model_validate({"extra_args": args}).extra_args == args


def launcher(folder: Path, device: Any, **fields: Any) -> Launcher:
    with LogFolder(folder, "policy", folder) as logs:
        return Launcher(SERVED, LaunchSettings.model_validate(fields), device, logs, name="policy")


def test_on_a_cpu_the_engine_is_one_process_with_few_threads(tmp_path: Path) -> None:
    made = launcher(
        tmp_path,
        "cpu",
        dtype="float32",
        max_num_seqs=8,
        kv_cache_gib=1,
        extra_args=["--seed", 3],
        env={"OMP_NUM_THREADS": 2},
    )
    argv, env = made.argv(), made.env(0)
    assert argv[argv.index("--distributed-executor-backend") + 1] == "uni"
    assert argv[argv.index("--model") + 1 : argv.index("--dtype")] == [
        *["m", "--served-model-name", "m", "--generation-config", "vllm", "--reasoning-parser", "qwen3"]
    ]
    assert argv[argv.index("--max-num-seqs") + 1] == "8"
    assert argv[-2:] == ["--seed", "3"]
    assert env["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert env["OMP_NUM_THREADS"] == "2"


def test_on_gpus_each_replica_has_its_own_and_none_of_the_cpu_settings(tmp_path: Path) -> None:
    made = launcher(tmp_path, "gpu", replicas=2, gpus_per_replica=4, kv_cache_gib=2, weight_transfer="nccl")
    argv, env = made.argv(), made.env(1)
    assert argv[argv.index("--tensor-parallel-size") + 1] == "4"
    assert argv[argv.index("--kv-cache-memory-bytes") + 1] == str(2 << 30)
    assert argv[argv.index("--weight-transfer-config") + 1] == '{"backend":"nccl"}'
    assert "--distributed-executor-backend" not in argv
    assert env["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert env["VLLM_SERVER_DEV_MODE"] == "1"
    assert not {"VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_CPU_KVCACHE_SPACE"} & set(env)


def test_stages_have_their_share_of_the_gpus_each(tmp_path: Path) -> None:
    argv = launcher(tmp_path, "gpu", gpus_per_replica=8, pipeline_parallel_size=2).argv()
    assert argv[argv.index("--pipeline-parallel-size") + 1] == "2"
    assert argv[argv.index("--tensor-parallel-size") + 1] == "4"
    with pytest.raises(ConfigError, match="no multiple of pipeline_parallel_size"):
        validate(Launching, {"launch": {"gpus_per_replica": 3, "pipeline_parallel_size": 2}}, "policy")


async def test_on_a_cpu_stages_are_for_ray(tmp_path: Path) -> None:
    stages = LaunchSettings(device="cpu", pipeline_parallel_size=2, folder=tmp_path)
    with pytest.raises(ConfigError, match="training runs alone"):
        await Launcher.make(SERVED, stages, name="policy")
    ranks = {"address": "10.0.0.1:6379", "placement_group": "c0ffee"}
    made = launcher(tmp_path, "cpu", gpus_per_replica=2, pipeline_parallel_size=2, ray=ranks)
    assert "--distributed-executor-backend" not in made.argv()
    assert made.env(0)["VLLM_ENABLE_V1_MULTIPROCESSING"] == "1"


def test_a_replica_over_nodes_starts_with_its_group_in_variables(tmp_path: Path) -> None:
    ranks = {"address": "10.0.0.1:6379", "placement_group": "c0ffee"}
    made = launcher(tmp_path, "gpu", gpus_per_replica=8, ray=ranks)
    argv, env = made.argv(), made.env(0)
    assert argv[2:4] == ["-m", "paddock.server.vllm.ray_server"]
    assert argv[argv.index("--tensor-parallel-size") + 1] == "8"
    assert (env["RAY_ADDRESS"], env["PADDOCK_VLLM_PLACEMENT_GROUP"]) == ("10.0.0.1:6379", "c0ffee")
    assert "c0ffee" not in " ".join(argv)


def test_arguments_by_name_go_over_ours_and_arguments_in_order_over_both(tmp_path: Path) -> None:
    kwargs = {
        "tensor_parallel_size": 8,
        "trust_remote_code": True,
        "enable_prefix_caching": False,
        "max_model_len": None,
        "compilation_config": {"level": 3},
        "middleware": ["a", 1],
        "gpu_memory_utilization": 0.85,
    }
    argv = launcher(tmp_path, "gpu", serve_kwargs=kwargs, extra_args=["--seed", 3]).argv()
    assert argv[argv.index("--tensor-parallel-size") :] == [
        *["--tensor-parallel-size", "1", "--tensor-parallel-size", "8"],
        *["--trust-remote-code", "--no-enable-prefix-caching", "--compilation-config", '{"level": 3}'],
        *["--middleware", "a", "1", "--gpu-memory-utilization", "0.85", "--seed", "3"],
    ]


def test_a_secret_has_no_name_among_the_arguments_either() -> None:
    with pytest.raises(ConfigError, match=r"launch\.env") as error:
        validate(Launching, {"launch": {"serve_kwargs": {"api_key": "geheim"}}}, "judge")
    assert "geheim" not in str(error.value)


def test_the_key_is_a_variable(tmp_path: Path) -> None:
    made = launcher(tmp_path, "cpu")
    assert made.env(0)["VLLM_API_KEY"] == "geheim"
    assert "geheim" not in " ".join(made.argv())
