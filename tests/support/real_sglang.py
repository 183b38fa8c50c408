"""A real SGLang on a CPU that serves a tiny random mixture of experts, and its calls for new weights.

Needs   the interpreter of an environment that scripts/setup_sglang.sh makes.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson

from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.types import JsonObject

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 32768
START_TIMEOUT_S = 400.0
OPTIONS = (
    *("--device", "cpu", "--dtype", "float32", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
    *("--disable-overlap-schedule", "--skip-server-warmup", "--sleep-on-idle", "--enable-return-routed-experts"),
    *("--context-length", str(CONTEXT)),
    *("--max-total-tokens", "65536", "--max-running-requests", "8", "--enable-custom-logit-processor"),
)


class AnswerScore(NamedTuple):
    """What transformers say of an answer."""

    log_probs: list[float]
    """Of its ids."""
    experts: list[Any]
    """Of all tokens but the last, in each layer, the likeliest first."""


class RealSglang:
    """Servers of two models, of which they serve the first."""

    def __init__(
        self, python: str, urls: Sequence[str], models: Sequence[Path], scorer: "subprocess.Popen[bytes]"
    ) -> None:
        self.python = python
        self.urls = list(urls)
        self.models = list(models)
        self._scorer = scorer

    @property
    def url(self) -> str:
        return self.urls[0]

    def post(self, path: str, body: dict[str, Any]) -> None:
        """To each server."""
        for url in self.urls:
            httpx.post(url + path, json=body, timeout=60).raise_for_status()

    def set_weights(self, nth: int, version: str, *, flush_cache: bool = True) -> None:
        """Serve a model under the name of a version."""
        body = {"model_path": str(self.models[nth]), "weight_version": version, "flush_cache": flush_cache}
        self.post("/update_weights_from_disk", body)

    def score(self, model: Path, prompt: Sequence[int], ids: Sequence[int]) -> AnswerScore:
        """Of `ids` behind `prompt`."""
        assert self._scorer.stdin is not None
        self._scorer.stdin.write(orjson.dumps([str(model), [*prompt], [*ids]], option=orjson.OPT_APPEND_NEWLINE))
        self._scorer.stdin.flush()
        return AnswerScore(**orjson.loads(_line(self._scorer)))

    @property
    def stopping(self) -> JsonObject:
        """Sampling parameters under which the model says eight tokens of plain text, and stops."""
        vocabulary = small_vocabulary()
        words = {str(token): 60.0 for token in vocabulary.encode("one small step, and another one of them")}
        stop = {str(token): 200.0 for token in vocabulary.encode("<|im_end|>")}
        return {"min_tokens": 8, "logit_bias": {**words, **stop}}


@contextmanager
def real_sglang(python: str, folder: Path, *, servers: int = 1) -> Iterator[RealSglang]:
    """Started; gone at the end."""
    template = TEMPLATES["chatml"].source
    models = [write_model_folder(folder / name, chat_template=template) for name in ("first", "second")]
    with ExitStack() as stack:
        scorer = stack.enter_context(_scorer(python, models, folder / "scorer.log"))
        assert _line(scorer) == b"ready\n"
        started = [stack.enter_context(_server(python, models[0], folder / f"{nth}.log")) for nth in range(servers)]
        for server in started:
            server.wait()
        yield RealSglang(python, [server.url for server in started], models, scorer)


class SglangProcess(NamedTuple):
    """A server that starts."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            try:
                if httpx.get(f"{self.url}/model_info", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"no SGLang within {START_TIMEOUT_S:.0f} s: {self.log.read_text()[-4000:]}")


@contextmanager
def _server(python: str, model: Path, log: Path) -> Iterator[SglangProcess]:
    port = free_port()
    command = [python, "-m", "sglang.launch_server", "--model-path", str(model), "--port", str(port), *OPTIONS]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=log.parent, env=environment(), start_new_session=True
        )
    try:
        yield SglangProcess(f"http://127.0.0.1:{port}", process, log)
    finally:
        os.killpg(process.pid, 9)
        process.wait()


@contextmanager
def _scorer(python: str, models: Sequence[Path], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [python, str(Path(__file__).parent / "scorer.py"), *map(str, models)]
    with log.open("wb") as errors:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def environment() -> dict[str, str]:
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
