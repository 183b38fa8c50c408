"""Launches as tests make them: a folder with what a config names, and the command."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "train_demo.yaml"
HIDDEN = "x'y\"$(touch /tmp/never) z\nw"
"""A secret, and hard to hand on."""


def prepare(folder: Path) -> dict[str, str]:
    """Rows, a folder for the model, and a trainer: the variables that name them."""
    (folder / "model").mkdir()
    for name in ("train", "held_out"):
        (folder / f"{name}.jsonl").write_text("{}\n" * 32)
    program = folder / "python"
    trainer = shlex.join([sys.executable, str(Path(__file__).with_name("trainer.py"))])
    program.write_text(f'#!/bin/sh\nexec {trainer} "$@"\n')
    program.chmod(0o755)
    return {
        "EXP_NAME": "first",
        "CONFIG_PATH": str(CONFIG),
        "MODEL_PATH": "model/",
        "TRAIN_PATH": "train.jsonl",
        "VAL_PATH": "held_out.jsonl",
        "PADDOCK_VLLM_PYTHON": str(program),
    }


def launch(
    folder: Path, *words: str, variables: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "paddock", "launch", *words]
    return subprocess.run(
        command, cwd=folder, env={**environ, **variables}, capture_output=True, text=True, timeout=300, check=False
    )
