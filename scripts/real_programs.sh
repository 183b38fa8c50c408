#!/usr/bin/env bash
# Usage: eval "$(scripts/real_programs.sh PADDOCK [PYTHON])"
# Installs the programs that the native harnesses answer like, by the command PADDOCK (such as .venv/bin/paddock) into its
# store (PADDOCK_HOME), and tells the tests that compare with them where they are: PADDOCK_CODEX, PADDOCK_OPENCODE and, where
# PYTHON (3.12 or newer) is given, PADDOCK_OPENHANDS_PYTHON; OpenCode needs the ripgrep that Codex brings. Needs npm; 0.6 GB,
# with OpenHands 1.3 GB.
set -euo pipefail
shopt -s inherit_errexit
OPENHANDS=1.58.0
paddock=$1
python=${2:-}

# HARNESS: its program's folder.
get() {
    local said
    said=$("$paddock" harness install "$1")
    echo "$said" >&2
    echo "${said##* MiB in }"
}

codex=$(get codex_cli)
printf 'export PADDOCK_CODEX=%q PATH=%q:"$PATH"\n' "$codex/bin/codex" "$codex/bin"
opencode=$(get opencode_cli)
printf 'export PADDOCK_OPENCODE=%q\n' "$opencode/bin/opencode"

if [ -n "$python" ]; then
    openhands=$(dirname "$codex")/openhands-$OPENHANDS
    if [ ! -x "$openhands/bin/ready" ]; then
        "$python" -m venv "$openhands"
        "$openhands/bin/pip" install --quiet --disable-pip-version-check "openhands-sdk==$OPENHANDS" "openhands-tools==$OPENHANDS" >&2
        ln -s python "$openhands/bin/ready"
    fi
    printf 'export PADDOCK_OPENHANDS_PYTHON=%q\n' "$openhands/bin/python"
fi
