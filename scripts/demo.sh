#!/usr/bin/env bash
# Usage: demo.sh BIN, a virtual environment's folder of commands.
# Two parts. Pivot rows, over HTTP. Then three bugs in released packages, in real sandboxes, through every harness, and
# through the real Codex and OpenCode where npm can install them; one table of that, in runs/demo. Without OPENAI_BASE_URL
# what is known to be right is played, and has to be paid; with it (and OPENAI_API_KEY, OPENAI_MODEL) that model is evaluated.
# Without npm the programs are skipped, which is an error (exit 3) unless DEMO_PROGRAMS=0 says that it is meant.
set -euo pipefail
bin=$1
programs=(codex_cli opencode_cli)
config=configs/swe_demo.yaml
oracle=(--oracle)
wanted=(gold=1 noop=0 null=0)
skipped=

if [ -n "${OPENAI_BASE_URL:-}" ]; then
    oracle=()
else
    wanted+=(codeact=1 codex=1 opencode=1)
fi
if [ "${DEMO_PROGRAMS:-1}" = 0 ]; then
    skipped="DEMO_PROGRAMS=0"
elif ! command -v npm >/dev/null; then
    skipped="there is no npm, which installs them (on Debian: apt-get install npm)"
fi

rm -rf runs/demo-pivot runs/demo runs/artifacts
"$bin/paddock" eval configs/demo.yaml --isolate --out runs/demo-pivot "${oracle[@]}"
scripts/ensure_sandbox.sh "$bin/paddock"
"$bin/paddock" images build --rows resources_servers/swe/data/example.jsonl
if [ -z "$skipped" ]; then
    "$bin/paddock" harness install "${programs[@]}"
    config=configs/swe_demo_programs.yaml
    [ ${#oracle[@]} -eq 0 ] || wanted+=("${programs[@]/%/=1}")
fi
"$bin/paddock" eval "$config" --out runs/demo "${oracle[@]}" >runs/demo.txt || { cat runs/demo.txt; exit 1; }
"$bin/python" scripts/demo_table.py runs/demo
"$bin/python" scripts/check_rewards.py runs/demo "${wanted[@]}"
if [ -n "$skipped" ]; then
    echo "skipped: ${programs[*]}: $skipped"
    [ "${DEMO_PROGRAMS:-1}" = 0 ] || exit 3
fi
