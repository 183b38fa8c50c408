"""The claim that a policy learns from a teacher's scores alone, served by a real vLLM, in the asynchronous loop."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.e2e.learning import runs

from paddock.ports import free_port

STEPS = 150
START_S = 300.0
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]


@contextmanager
def served(model: Path, log: Path) -> Iterator[str]:
    """The URL of a vLLM that serves a model on the CPU."""
    port = free_port()
    command = [
        *(runs.vllm_python(), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "256"),
        *("--max-num-seqs", "32", "--enforce-eager", "--distributed-executor-backend", "uni"),
    ]
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        await_health(url, process, log)
        yield f"{url}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_health(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(1)
    raise AssertionError(log.read_text()[-4000:])


def test_a_policy_learns_from_a_served_teacher_alone(tmp_path: Path) -> None:
    """No reward is trained on; it is what the teacher's knowledge of the task comes to."""
    made, out = tmp_path / "made", tmp_path / "run"
    runs.call("scripts/train_demo.py", "make", made, "--seed", "0")
    runs.call("-m", "tests.e2e.learning.driver", "--make-teacher", made)
    with served(made / "teacher", tmp_path / "teacher.log") as url:
        teacher = f"{{base_url: '{url}', model: '{made / 'teacher'}'}}"
        runs.train(
            out,
            "configs/train_demo.yaml",
            *runs.data(made),
            f"data.validation.data_path={made / 'held_out.jsonl'}",
            f"grpo.max_num_steps={STEPS}",
            "+grpo.adv_estimator={name: opd}",
            "+on_policy_distillation={enabled: true, teacher_model_by_agent_name: {all: big}, "
            f"default_teacher_alias: all, servers: {{big: {teacher}}}}}",
            # A teacher that is sure holds other calls for impossible: their advantages, down to -13, would outweigh all
            # that is right.
            "grpo.advantage_clip_low=-1.0",
            "loss_fn={_override_: true, disable_ppo_ratio: true}",
        )
    summary = json.loads((out / "summary.json").read_text())
    distances = [line["metrics"]["train/teacher/reverse_kl"] for line in runs.lines(out)]
    assert summary["validation_first"] < 0.2
    assert summary["validation_last"] >= 0.9
    assert runs.mean(distances[-runs.ENDS :]) < runs.mean(distances[: runs.ENDS]) / 5
    assert sum(line["metrics"].get("train/masked/teacher_failed", 0) for line in runs.lines(out)) == 0
