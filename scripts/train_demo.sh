#!/usr/bin/env bash
# Usage: PADDOCK_VLLM_PYTHON=... scripts/train_demo.sh [SEEDS]
# Trains `configs/train_demo.yaml` once for each seed from 0, and checks what came of it: runs/train-demo with summary.json
# and the plot of the first seed, runs/train-demo/seed-N of the others. See `scripts/train_demo.py` for what is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PADDOCK_VLLM_PYTHON:?is not set: eval "\$(scripts/setup_vllm.sh FOLDER)"}
export HF_HUB_OFFLINE=1
rm -rf runs/train-demo
code=0
for ((seed = 0; seed < ${1:-1}; seed++)); do
    out=runs/train-demo
    [ "$seed" -eq 0 ] || out=runs/train-demo/seed-$seed
    started=$(date +%s)
    "$python" scripts/train_demo.py make "$out/made" --seed "$seed"
    "$python" -m paddock train configs/train_demo.yaml --out "$out" "grpo.seed=$seed" \
        "policy.model_name=$out/made/model" "data.train.data_path=$out/made/train.jsonl" \
        "data.validation.data_path=$out/made/held_out.jsonl"
    "$python" scripts/train_demo.py check "$out" --seed "$seed" --started "$started" || code=1
done
exit $code
