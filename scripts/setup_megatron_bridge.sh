#!/usr/bin/env bash
# Usage: eval "$(scripts/setup_megatron_bridge.sh FOLDER [PYTHON])"
# Makes an environment with NVIDIA Megatron-Bridge, Megatron-core and this package, without TransformerEngine, Ray and vLLM,
# and prints where its interpreter is: PADDOCK_MEGATRON_BRIDGE_PYTHON. PYTHON: 3.12, the only one that the Bridge runs on.
# 1.5 GB and two minutes where pip finds a torch for a CPU (pytorch.org/get-started/locally, compute platform CPU), 5 GB
# where it does not: torch for CUDA, which works without a GPU too. Again: nothing is done, but where what the
# installation follows from has changed.
set -euo pipefail
TORCH=2.13.0
CORE=0.19.2
BRIDGE=0.6.2
TRANSFORMERS=5.12.1
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${2:-python3.12}
venv=$folder/megatron-bridge-$BRIDGE
stamp=$venv/ready
# What the installation follows from.
state="$root $(cat "$root/pyproject.toml" "$root/scripts/setup_megatron_bridge.sh" | sha256sum | cut -d ' ' -f 1)"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
# What the Bridge imports to convert weights, of the many that it declares: one of those is built from source and needs
# torch for that, others are for data, logs and other kinds of model.
needed=(accelerate einops hydra-core omegaconf pyyaml regex rich safetensors six tqdm)

if [ "$(cat "$stamp" 2>/dev/null)" != "$state" ]; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
        echo "$0: needs Python 3.12; $python is none" >&2
        exit 1
    fi
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "${pip[@]}" install "torch==$TORCH" "megatron-core==$CORE" "transformers==$TRANSFORMERS" "${needed[@]}" -e "$root" >&2
    "${pip[@]}" install --no-deps "megatron-bridge==$BRIDGE" >&2
    "$venv/bin/python" -c 'import megatron.core, paddock.training; from transformers import Qwen3MoeForCausalLM' >&2
    echo "$state" >"$stamp"
fi
printf 'export PADDOCK_MEGATRON_BRIDGE_PYTHON=%q\n' "$venv/bin/python"
