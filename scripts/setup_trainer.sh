#!/usr/bin/env bash
# Usage: eval "$(scripts/setup_trainer.sh NAME FOLDER [PYTHON])"
# Makes an environment FOLDER/NAME with another project's trainer and this package, for the adapter `training/NAME/` and
# its tests, and prints where its interpreter is: PADDOCK_<NAME>_PYTHON. What comes is in scripts/trainers/NAME.txt, the
# Python that it needs in that file's first line. No GPU is needed; where pip finds no torch for a CPU, it takes
# that for CUDA, which works without one too (4 GB more). Again: nothing is done, but where what the installation follows
# from has changed.
set -euo pipefail
name=$1
root=$(cd "$(dirname "$0")/.." && pwd)
needed=$root/scripts/trainers/$name.txt
version=$(sed -n '1s/^# Python //p' "$needed")
swebench=$(sed -n 's/^SWEBENCH := //p' "$root/Makefile")
mkdir -p "$2"
folder=$(cd "$2" && pwd)
python=${3:-python$version}
venv=$folder/$name
stamp=$venv/ready
# What the installation follows from.
state="$root $swebench $(cat "$root/pyproject.toml" "$needed" "$root/scripts/setup_trainer.sh" | sha256sum | cut -d ' ' -f 1)"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)

if [ "$(cat "$stamp" 2>/dev/null)" != "$state" ]; then
    if ! "$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$version" 2>/dev/null; then
        echo "$0: $name needs Python $version; $python is none" >&2
        exit 1
    fi
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "${pip[@]}" install -r "$needed" -e "$root" >&2
    # Rollouts are graded where the trainer runs: SWE-bench's parsers and rules alone, as in the Makefile.
    "${pip[@]}" install --no-deps "swebench==$swebench" >&2
    echo "$state" >"$stamp"
fi
printf 'export PADDOCK_%s_PYTHON=%q\n' "${name^^}" "$venv/bin/python"
