#!/usr/bin/env bash
# Usage: eval "$(scripts/real_programs.sh FOLDER [PYTHON])"
# Installs the programs that the native harnesses answer like, and tells the tests that compare with them where they are:
# PADDOCK_CODEX, PADDOCK_OPENCODE and, where PYTHON (3.12 or newer) is given, PADDOCK_OPENHANDS_PYTHON; OpenCode needs the
# ripgrep that Codex brings. Needs npm; 0.6 GB, with OpenHands 1.3 GB.
set -euo pipefail
CODEX=0.169.0
OPENCODE=1.18.33
OPENHANDS=1.58.0
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${2:-}

get() { # NAME PACKAGE
    [ -d "$folder/$1/node_modules" ] || npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder/$1" "$2" >&2
}

get "codex-$CODEX" "@openai/codex@$CODEX"
get "opencode-$OPENCODE" "opencode-ai@$OPENCODE"
codex=$(echo "$folder/codex-$CODEX/node_modules/@openai/codex-linux-"*/vendor/*)
printf 'export PADDOCK_CODEX=%q PADDOCK_OPENCODE=%q PATH=%q:"$PATH"\n' "$codex/bin/codex" \
    "$(echo "$folder/opencode-$OPENCODE"/node_modules/opencode-linux-*[!e]/bin/opencode)" "$codex/codex-path"
if [ -n "$python" ]; then
    openhands=$folder/openhands-$OPENHANDS
    if [ ! -x "$openhands/bin/ready" ]; then
        "$python" -m venv "$openhands"
        "$openhands/bin/pip" install --quiet --disable-pip-version-check "openhands-sdk==$OPENHANDS" "openhands-tools==$OPENHANDS" >&2
        ln -s python "$openhands/bin/ready"
    fi
    printf 'export PADDOCK_OPENHANDS_PYTHON=%q\n' "$openhands/bin/python"
fi
