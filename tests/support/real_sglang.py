"""A real SGLang on a CPU that serves a tiny random model, and its calls for new weights.

Needs   the interpreter of an environment that scripts/setup_sglang.sh makes.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 1024
START_TIMEOUT_S = 400.0
OPTIONS = (
    *("--device", "cpu", "--dtype", "float32", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
    *("--disable-overlap-schedule", "--skip-server-warmup", "--sleep-on-idle"),
    *("--context-length", str(CONTEXT)),
    *("--max-total-tokens", "8192", "--max-running-requests", "8"),
)
MAKE = """
import sys
from pathlib import Path
from paddock.testing.templates import TEMPLATES
from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save
tokenizer = make_tokenizer(["a file, a look at it, a change of it\\n" * 40], 512)
for seed, folder in enumerate(sys.argv[1:]):
    model = make_model(tokenizer, seed, max_position_embeddings=2048)
    save(model, tokenizer, TEMPLATES["chatml"].source, Path(folder))
"""
SCORE = """
import json, sys, torch
from transformers import Qwen3ForCausalLM
folder, n_prompt, ids = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
with torch.no_grad():
    log_probs = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1].float(), -1)
wanted = log_probs[range(len(ids) - 1), ids[1:]]
print(json.dumps(wanted[n_prompt - 1 :].tolist()))
"""


class RealSglang:
    """One server, two models, of which it serves the first."""

    def __init__(self, python: str, url: str, models: Sequence[Path]) -> None:
        self.url = url
        self.models = list(models)
        self._python = python

    def post(self, path: str, body: dict[str, Any]) -> None:
        httpx.post(self.url + path, json=body, timeout=60).raise_for_status()

    def log_probs(self, model: Path, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
        """Of `ids` behind `prompt`, as transformers have them."""
        text = orjson.dumps([*prompt, *ids]).decode()
        found: list[float] = orjson.loads(_run(self._python, SCORE, str(model), str(len(prompt)), text))
        return found


@contextmanager
def real_sglang(python: str, folder: Path) -> Iterator[RealSglang]:
    """Started; gone at the end."""
    models = [folder / "first", folder / "second"]
    _run(python, MAKE, *map(str, models))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "sglang.launch_server", "--model-path", str(models[0]), "--port", str(port), *OPTIONS]
    log = folder / "sglang.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=_env(), start_new_session=True)
    try:
        _wait(f"http://127.0.0.1:{port}/model_info", process, log)
        yield RealSglang(python, f"http://127.0.0.1:{port}", models)
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"no SGLang within {START_TIMEOUT_S:.0f} s: {log.read_text()[-4000:]}")


def _env() -> dict[str, str]:
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": str(ROOT / "src")}


def _run(python: str, code: str, *arguments: str) -> str:
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, timeout=400, env=_env())
    assert done.returncode == 0, done.stderr
    return done.stdout
