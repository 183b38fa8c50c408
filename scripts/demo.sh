#!/usr/bin/env bash
# Usage: demo.sh BIN, a virtual environment's folder of commands.
# Pivot rows, over HTTP. Three bugs in released packages, in real sandboxes, through every harness, and through the real
# Codex and OpenCode where npm can install them; one table of that, in runs/demo. Then answers to rows of each server that
# judges answers, a task in Harbor's form, and environments of verifiers and NeMo-Gym under their own code. Without
# OPENAI_BASE_URL what is known to be right is played, and has to be paid; with it (and OPENAI_API_KEY, OPENAI_MODEL) that
# model is evaluated.
# Without npm, or without Python 3.12 (PYTHON312 names one) for NeMo-Gym, a part is skipped, which is an error (exit 3)
# unless DEMO_PROGRAMS=0 says that nothing is to be installed from elsewhere.
set -euo pipefail
bin=$1
python312=${PYTHON312:-python3.12}
programs=(codex_cli opencode_cli)
config=configs/swe_demo.yaml
oracle=(--oracle)
wanted=(gold=1 noop=0 null=0)
skipped=()

if [ -n "${OPENAI_BASE_URL:-}" ]; then
    oracle=()
else
    wanted+=(codeact=1 codex=1 opencode=1)
fi
if [ "${DEMO_PROGRAMS:-1}" = 0 ]; then
    skipped=("${programs[*]}, verifiers, NeMo-Gym: DEMO_PROGRAMS=0")
elif ! command -v npm >/dev/null; then
    skipped=("${programs[*]}: there is no npm, which installs them (on Debian: apt-get install npm)")
    programs=()
fi

# CONFIG NAME ROWS AGENT...: their first rows, in runs/demo-NAME.
evaluate() {
    local config=$1 out=runs/demo-$2 rows=$3
    shift 3
    "$bin/paddock" eval "$config" --limit "$rows" --out "$out" "${oracle[@]}" >"$out.txt" || { cat "$out.txt"; exit 1; }
    [ ${#oracle[@]} -eq 0 ] || "$bin/python" scripts/check_rewards.py "$out" "${@/%/=1}"
}

# NAME PYTHON PACKAGE...: an interpreter of its own for another project's package, in .venv-NAME.
interpreter() {
    local venv=.venv-$1 python=$2
    shift 2
    [ -e "$venv/ready" ] || {
        "$bin/uv" venv --quiet --clear --python "$python" "$venv"
        "$bin/uv" pip install --quiet --python "$venv/bin/python" "$@"
        touch "$venv/ready"
    }
}

# Environments of verifiers and NeMo-Gym, each under its own interpreter.
foreign() {
    interpreter verifiers "$bin/python" -r scripts/trainers/verifiers.txt uv -e .
    PADDOCK_VERIFIERS_PYTHON=$PWD/.venv-verifiers/bin/python \
        evaluate configs/verifiers_demo.yaml verifiers 1 verifiers_agent
    [ "$nemo_gym" = 1 ] || return 0
    interpreter nemo-gym "$python312" nemo-gym==0.4.0
    PADDOCK_NEMO_GYM_PYTHON=$PWD/.venv-nemo-gym/bin/python evaluate configs/nemo_gym_demo.yaml nemo-gym 1 mcqa_agent
}

rm -rf runs/demo-* runs/demo runs/artifacts
if [ "${DEMO_PROGRAMS:-1}" != 0 ]; then
    nemo_gym=1
    "$python312" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || {
        nemo_gym=0
        skipped+=("NeMo-Gym: $python312 is no Python 3.12 (PYTHON312=... names one)")
    }
    # Beside the sandboxes: they download and wait more than they work.
    trap wait EXIT
    mkdir -p runs
    foreign &
    foreign=$!
fi
"$bin/paddock" eval configs/demo.yaml --isolate --out runs/demo-pivot "${oracle[@]}"
scripts/ensure_sandbox.sh "$bin/paddock"
"$bin/paddock" images build --rows resources_servers/swe/data/example.jsonl
if [ "${DEMO_PROGRAMS:-1}" != 0 ] && [ ${#programs[@]} -gt 0 ]; then
    "$bin/paddock" harness install "${programs[@]}"
    config=configs/swe_demo_programs.yaml
    [ ${#oracle[@]} -eq 0 ] || wanted+=("${programs[@]/%/=1}")
fi
"$bin/paddock" eval "$config" --out runs/demo "${oracle[@]}" >runs/demo.txt || { cat runs/demo.txt; exit 1; }
"$bin/python" scripts/demo_table.py runs/demo
"$bin/python" scripts/check_rewards.py runs/demo "${wanted[@]}"
evaluate configs/environments_demo.yaml environments 100 math_agent code_agent instructions_agent schema_agent choice_agent
evaluate configs/judged_demo.yaml judged 1 judged_agent
evaluate configs/harbor_demo.yaml harbor 1 harbor_agent
[ -z "${foreign:-}" ] || wait "$foreign"
if [ ${#skipped[@]} -gt 0 ]; then
    printf 'skipped: %s\n' "${skipped[@]}"
    [ "${DEMO_PROGRAMS:-1}" = 0 ] || exit 3
fi
