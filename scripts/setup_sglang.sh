#!/usr/bin/env bash
# Usage: eval "$(scripts/setup_sglang.sh FOLDER [PYTHON])"
# Makes an environment with SGLang for a CPU, its routers and this package, and prints where its interpreter is:
# PADDOCK_SGLANG_PYTHON. PYTHON: 3.11. 3 GB, some minutes; again: nothing is done. It is for tests: what a GPU alone runs
# is left out, and scripts/sglang_cpu/sitecustomize.py stands for what SGLang imports of that all the same.
set -euo pipefail
SGLANG=0.5.23
ROUTERS=(sglang-router==0.3.2 smg==1.13.0)
TORCH=2.13.0
UV=0.13.9
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${2:-python3.11}
venv=$folder/sglang-cpu-$SGLANG
stamp=$venv/ready
state=$(cat "$here/setup_sglang.sh" "$here"/sglang_cpu/* | sha256sum | cut -d ' ' -f 1)
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)

if [ ! -e "$stamp" ] || [ "$(cat "$stamp")" != "$state" ]; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        echo "$0: needs Python 3.11; $python is none" >&2
        exit 1
    fi
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    found=$("${pip[@]}" install --dry-run --no-deps --ignore-installed --report - "torch==$TORCH" |
        "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])')
    if [ "$found" != "$TORCH+cpu" ]; then
        echo "$0: pip would install torch $found, which is no build for a CPU: have pip find one (compute platform CPU)" >&2
        exit 1
    fi
    "${pip[@]}" install "torch==$TORCH" "uv==$UV" >&2
    "${pip[@]}" install --no-deps "sglang==$SGLANG" >&2
    "$venv/bin/python" "$here/sglang_cpu/requirements.py" "torch==$found" >"$venv/requirements.txt"
    # By uv: pip takes many minutes to find versions that suit each other.
    "$venv/bin/python" -m uv pip install --quiet --python "$venv/bin/python" -r "$venv/requirements.txt" -e "$root" >&2
    "${pip[@]}" install --no-deps "${ROUTERS[@]}" >&2
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp "$here/sglang_cpu/sitecustomize.py" "$site/"
    mkdir -p "$site/torchvision-0.0.0.dist-info"
    printf 'Metadata-Version: 2.1\nName: torchvision\nVersion: 0.0.0\n' >"$site/torchvision-0.0.0.dist-info/METADATA"
    "$venv/bin/python" -c 'import sglang.srt.entrypoints.http_server' >&2
    echo "$state" >"$stamp"
fi
printf 'export PADDOCK_SGLANG_PYTHON=%q\n' "$venv/bin/python"
