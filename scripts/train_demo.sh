#!/usr/bin/env bash
# Usage: PADDOCK_VLLM_PYTHON=... scripts/train_demo.sh [SEEDS [TASK]]
# Trains `configs/train_demo.yaml` once for each seed from 0, and checks what came of it: runs/train-demo with summary.json
# and the plot of the first seed, runs/train-demo/seed-N of the others. With the task `sums` it is
# `configs/train_demo_math.yaml` and runs/train-demo-math. See `scripts/train_demo.py` for what is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PADDOCK_VLLM_PYTHON:?is not set: eval "\$(scripts/setup_vllm.sh FOLDER)"}
export HF_HUB_OFFLINE=1
task=${2:-calls}
config=configs/train_demo.yaml runs=runs/train-demo
[ "$task" = calls ] || config=configs/train_demo_math.yaml runs=runs/train-demo-math
rm -rf "$runs"
code=0
for ((seed = 0; seed < ${1:-1}; seed++)); do
    out=$runs
    [ "$seed" -eq 0 ] || out=$runs/seed-$seed
    started=$(date +%s)
    "$python" scripts/train_demo.py make "$out/made" --seed "$seed" --task "$task"
    "$python" -m paddock train "$config" --out "$out" "grpo.seed=$seed" \
        "policy.model_name=$out/made/model" "data.train.data_path=$out/made/train.jsonl" \
        "data.validation.data_path=$out/made/held_out.jsonl"
    "$python" scripts/train_demo.py check "$out" --seed "$seed" --task "$task" --started "$started" || code=1
done
exit $code
