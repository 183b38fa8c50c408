"""The vLLM server that TRL starts for its trainers is one that our model server fronts: exact samples come of it.

Its arguments are those of `trl vllm-serve`; it runs on a CPU, where vLLM's command of that name can't.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.learning import runs

from paddock.rollouts import open_rollouts

pytestmark = [pytest.mark.trainer, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
COMMAND = """
import json, sys
from trl.scripts.vllm_serve import ScriptArguments, build_command
limits = {"max_model_len": 256, "gpu_memory_utilization": 0.1}
arguments = ScriptArguments(model=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), dtype="float32", **limits)
print(json.dumps(build_command(arguments)))
"""
START_S = 400.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trl_server")
    runs.call("scripts/train_demo.py", "make", folder, "--small", "--steps", "40")
    return folder


@pytest.fixture(scope="module")
def url(trl_python: str, made: Path) -> Iterator[str]:
    """Of the server, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [trl_python, "-c", COMMAND, str(made / "model"), str(port)]
    built = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=200).stdout)
    start = built.index("serve")
    # TRL leaves it out where it finds no vLLM beside itself.
    options = [*built[start + 2 :], *(() if "--enable-scale-out" in built else ("--enable-scale-out",))]
    module = "vllm.entrypoints.openai.api_server"
    command = [runs.vllm_python(), "-P", "-m", module, "--model", built[start + 1], *options]
    env = {**runs.environment(), "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
    with (made / "log").open("w") as log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as server:
        try:
            await_health(f"http://127.0.0.1:{port}", server, made / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def await_health(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.5)


def test_a_rollout_over_trls_server_is_exact(url: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(runs.ROOT / "src"), str(runs.ROOT)]))
    row = json.loads((made / "train.jsonl").read_text().splitlines()[0])
    with open_rollouts(
        ["resources_servers/pivot/configs/pivot.yaml", "models_servers/vllm/configs/vllm_running.yaml"],
        f"policy_base_url={url}",
        f"policy_model_name={made / 'model'}",
        f"policy_model.models_servers.vllm.tokenizer={made / 'model'}",
        "+policy_model.models_servers.vllm.max_tokens_per_turn=40",
        "+policy_model.models_servers.vllm.health_timeout_s=60",
    ) as rollouts:
        group = rollouts.run_group(row, 3)
        (replica,) = rollouts.replicas()
    assert [member.mask for member in group.members] == [None] * 3, [member.failure for member in group.members]
    for member in group.members:
        (entry,) = member.samples
        trained = [log_prob for log_prob, on in zip(entry.sample.log_probs, entry.sample.loss_mask, strict=True) if on]
        assert trained
        assert all(log_prob < 0 for log_prob in trained)
    assert replica.n_starts == 1
