#!/usr/bin/env bash
# Usage: eval "$(scripts/real_programs.sh PADDOCK)"
# Installs the programs that harnesses run, and that the native ones answer like, by the command PADDOCK (such as
# .venv/bin/paddock) into its store (PADDOCK_HOME), and tells the tests that compare with them where they are:
# PADDOCK_CODEX, PADDOCK_OPENCODE, rg on PATH and PADDOCK_OPENHANDS_PYTHON. Needs npm, and Python 3.12 for OpenHands; 2.5 GB.
set -euo pipefail
shopt -s inherit_errexit
paddock=$1

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
get claude_code >/dev/null
get mini_swe_agent >/dev/null
openhands=$(get openhands_sdk)
printf 'export PADDOCK_OPENHANDS_PYTHON=%q\n' "$openhands/bin/python"
