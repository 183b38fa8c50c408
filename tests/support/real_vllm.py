"""A real vLLM behind our own model server, as `paddock serve` starts both, with a log of what goes between them.

Needs   `python`: the interpreter of an environment with vLLM (`scripts/setup_vllm.sh`), of the CPU kind.
Model   made once by `scripts/tiny_model.py`, kept below the folder of sandboxes and images.
Law     one process each for the command, the server, vLLM and what stands in its place; at the end the command is told
        to end, has to do so with code 0, and nothing of them is left.
Errors  AssertionError with all that the command wrote; `subprocess.CalledProcessError` where the model can't be made.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.support import wire_log
from tests.support.processes import gone, running
from tests.support.wire_log import WireCall, read_calls, url_file

from paddock.types import JsonObject

MAX_TOKENS = 16384
START_S = 400.0
STOP_S = 30.0


class RealVllm(NamedTuple):
    """Both, running."""

    name: str
    """The name of our server."""
    harness: str
    """Whose tools its model calls."""
    url: str
    """The URL of our server."""
    engine_url: str
    """The URL of vLLM itself: calls of it are not in the log."""
    model: Path
    """Its folder, and what vLLM calls it."""
    log: Path

    @property
    def calls(self) -> list[WireCall]:
        """What our server asked for since it started, in the order in which answers ended; without its probes, which
        allow one token only."""
        return [call for call in read_calls(self.log) if "allowed_token_ids" not in call.sampling]


def tiny_model(home: Path, python: str, root: Path, *, harness: str, commands: Sequence[str] = ()) -> Path:
    """The folder below `home` of one that calls the harness's tools; made where it is not there yet. `root`: of the
    checkout; `commands`: of its shell, in place of the usual ones."""
    kind = f"-{sha256(repr(commands).encode()).hexdigest()[:8]}" if commands else ""
    folder = home / "models" / f"tiny-{harness}{kind}"
    if not (folder / "taught.json").exists():  # which is written last
        folder.parent.mkdir(parents=True, exist_ok=True)
        script = root / "scripts" / "tiny_model.py"
        env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        words = ["--commands", *commands] if commands else []
        subprocess.run([python, str(script), str(folder), "--harness", harness, *words], check=True, env=env)
    return folder


@contextmanager
def real_vllm(folder: Path, *, python: str, model: Path, harness: str) -> Iterator[RealVllm]:
    """`folder`: where its config, logs and what stands in vLLM's place are written."""
    log = folder / "wire.jsonl"
    config = folder / "vllm.json"
    config.write_text(json.dumps(_config(folder, _logged_python(folder, log, python), python=python, model=model)))
    with running("paddock", "serve", config) as command:
        url = command.line("policy  models_servers/", timeout_s=START_S).split()[-1]
        yield RealVllm("policy", harness, url, url_file(log).read_text(), model, log)
        family = command.family()
        command.send(signal.SIGTERM)
        assert command.code(timeout_s=STOP_S) == 0, command.output()
        assert gone(family, within_s=STOP_S), "something of it is left"


def _logged_python(folder: Path, log: Path, python: str) -> Path:
    """A program that is called as the interpreter of vLLM's environment is."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{wire_log.__file__}" "{log}" "{python}" "$@"\n')
    program.chmod(0o755)
    return program


def _config(folder: Path, program: Path, *, python: str, model: Path) -> JsonObject:
    launch = {
        "python": str(program),
        "device": "cpu",
        "dtype": "float32",
        "max_model_len": MAX_TOKENS,
        "max_num_seqs": 16,
        "kv_cache_gib": 1,
        "enforce_eager": True,
        "folder": str(folder / "logs"),
    }
    block = {
        "python": python,
        "model": str(model),
        "tool_parser": "hermes",
        "reasoning_parser": "qwen3",
        "max_tokens_per_turn": 160,
        "launch": launch,
    }
    return {"policy": {"models_servers": {"vllm": block}}, "serve": {"stop_timeout_s": STOP_S / 2}}
