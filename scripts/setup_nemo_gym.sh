#!/usr/bin/env bash
# Usage: eval "$(scripts/setup_nemo_gym.sh FOLDER [PYTHON])"
# Makes an environment with NeMo-Gym's own package, to hold its servers against ours, and prints where its interpreter
# is: PADDOCK_NEMO_GYM_PYTHON. PYTHON: 3.12, the oldest for which it is published. 0.7 GB, two to four minutes. Of what
# the package asks for only what its servers import is installed. Again: nothing is done.
set -euo pipefail
NEMO_GYM=0.4.0
NEEDED=(
    'math-verify[antlr4_9_3]==0.8.0'
    aiohttp 'anthropic<=0.109.2' devtools fastapi gprof2dot hydra-core itsdangerous 'mcp<2' omegaconf 'openai<=2.7.2'
    orjson pandas psutil pydantic pydot ray requests rich uvicorn uvloop wandb yappi
)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${2:-python3.12}
venv=$folder/nemo-gym-$NEMO_GYM
stamp=$venv/ready
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)

if [ ! -e "$stamp" ]; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] < (3, 12))' 2>/dev/null; then
        echo "$0: needs Python 3.12 or newer; $python is none" >&2
        exit 1
    fi
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "${pip[@]}" install "${NEEDED[@]}" >&2
    "${pip[@]}" install --no-deps "nemo-gym==$NEMO_GYM" >&2
    (cd / && "$venv/bin/python" -c 'import responses_api_agents.simple_agent.app') >&2
    touch "$stamp"
fi
printf 'export PADDOCK_NEMO_GYM_PYTHON=%q\n' "$venv/bin/python"
