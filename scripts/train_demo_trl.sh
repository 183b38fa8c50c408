#!/usr/bin/env bash
# Usage: PADDOCK_VLLM_PYTHON=... PADDOCK_TRL_PYTHON=... scripts/train_demo_trl.sh [SEED]
# Trains the model of `scripts/train_demo.py` by TRL's asynchronous trainer, and checks what came of it:
# runs/train-demo-trl. See `scripts/train_demo_trl.py` for what is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
vllm=${PADDOCK_VLLM_PYTHON:?is not set: eval "\$(scripts/setup_vllm.sh FOLDER)"}
trl=${PADDOCK_TRL_PYTHON:?is not set: eval "\$(scripts/setup_trainer.sh trl FOLDER)"}
export HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1
out=runs/train-demo-trl
rm -rf "$out"
"$vllm" scripts/train_demo.py make "$out/made" --seed "${1:-0}"
"$trl" -m scripts.train_demo_trl "$out" --seed "${1:-0}"
